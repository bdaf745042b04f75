package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"
)

// writeArchive writes a zip for Windows and a tar.gz for all others, with one folder in
// which all files are.
func (r *release) writeArchive(t target, files []file) error {
	name := fmt.Sprintf("unloop_%s_%s_%s", r.version, t.os, t.arch)
	if t.os == "windows" {
		return r.write(name+".zip", name, files, writeZip)
	}
	return r.write(name+".tar.gz", name, files, writeTarGz)
}

type format func(w io.Writer, folder string, files []file, at time.Time) error

// write writes a result and notes its checksum.
func (r *release) write(name, folder string, files []file, write format) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	sum := sha256.New()
	err = write(io.MultiWriter(f, sum), folder, files, r.made)
	r.sums = append(r.sums, fmt.Sprintf("%x  %s\n", sum.Sum(nil), name))
	return errors.Join(err, f.Close())
}

func writeTarGz(w io.Writer, folder string, files []file, at time.Time) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Name: path.Join(folder, f.name), Mode: f.mode, Size: int64(len(f.body)), ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.body); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

func writeZip(w io.Writer, folder string, files []file, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: at})
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.body); err != nil {
			return err
		}
	}
	return archive.Close()
}
