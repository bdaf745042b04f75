package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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

func (r *release) write(name, folder string, files []file, write format) (err error) {
	f, err := r.create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f, folder, files, r.made)
}

func writeTarGz(w io.Writer, folder string, files []file, at time.Time) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Name: folder + "/" + f.name, Mode: f.mode, Size: int64(len(f.body)), ModTime: at}
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
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: at})
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.body); err != nil {
			return err
		}
	}
	return archive.Close()
}
