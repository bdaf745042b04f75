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
	"strings"
	"time"
)

// writeArchive writes a zip for Windows and a tar.gz for all others, with one folder in
// which all files are.
func (r *release) writeArchive(t target, files []file) error {
	folder := fmt.Sprintf("unloop_%s_%s_%s", r.version, t.os, t.arch)
	if t.os == "windows" {
		return r.write(r.archive(t), folder, files, writeZip)
	}
	return r.write(r.archive(t), folder, files, writeTarGz)
}

// archive is the name of a platform's archive.
func (r *release) archive(t target) string {
	name := fmt.Sprintf("unloop_%s_%s_%s", r.version, t.os, t.arch)
	if t.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
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
	r.sums[name] = fmt.Sprintf("%x", sum.Sum(nil))
	return errors.Join(err, f.Close())
}

// writeFile writes a result that is no archive of files.
func (r *release) writeFile(name string, body []byte) error {
	return r.write(name, "", nil, func(w io.Writer, _ string, _ []file, _ time.Time) error {
		_, err := w.Write(body)
		return err
	})
}

func writeTarGz(w io.Writer, folder string, files []file, at time.Time) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Name: path.Join(folder, f.name), Mode: f.mode, Size: int64(len(f.body)), ModTime: at}
		if strings.HasSuffix(f.name, "/") {
			header.Name, header.Typeflag = header.Name+"/", tar.TypeDir
		}
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
