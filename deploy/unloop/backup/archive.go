package backup

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/s2"
)

var (
	// ErrNoBackup means that a file is not a complete backup; it may be truncated.
	ErrNoBackup = errors.New("not a whole backup")
	// ErrDamaged means that a backup was changed since it was written.
	ErrDamaged = errors.New("backup is damaged")
	// ErrNewer means that a newer version wrote the backup.
	ErrNewer = errors.New("backup has a newer format")
)

// Archive is an open backup whose contents have been verified.
type Archive struct {
	Manifest Manifest
	zip      *zip.ReadCloser
}

// Open opens a backup and verifies its whole content.
func Open(file string) (_ *Archive, err error) {
	z, err := zip.OpenReader(file)
	if errors.Is(err, zip.ErrFormat) {
		return nil, fmt.Errorf("%w: %s: it is no archive, or was cut off", ErrNoBackup, file)
	}
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	a := &Archive{zip: z}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err := a.manifest(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i := range a.Manifest.Streams {
		if err := a.verify(&a.Manifest.Streams[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return a, nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.zip.Close() }

func (a *Archive) manifest() error {
	in, err := a.zip.Open(manifestName)
	if err != nil {
		return fmt.Errorf("%w: it has no %s", ErrNoBackup, manifestName)
	}
	defer func() { _ = in.Close() }() // it was only read from
	m := &a.Manifest
	if err := json.NewDecoder(in).Decode(m); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, manifestName, err)
	}
	switch {
	case m.Format > Format:
		return fmt.Errorf("%w: it has format %d, written by unloop %s, and this version reads up to %d; restore it with that version or a later one",
			ErrNewer, m.Format, m.Unloop, Format)
	case m.Format < 1 || len(m.Streams) == 0:
		return fmt.Errorf("%w: %s lists no streams", ErrNoBackup, manifestName)
	}
	return nil
}

// verify reads a snapshot to its end and compares it with the manifest.
func (a *Archive) verify(s *Stream) error {
	in, err := a.open(s)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read from
	sum := sha256.New()
	if _, err := io.Copy(io.Discard, s2.NewReader(io.TeeReader(in, sum))); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, s.Name, err)
	}
	info, err := in.Stat()
	if err != nil || info.Size() != s.Bytes || hex.EncodeToString(sum.Sum(nil)) != s.SHA256 {
		return fmt.Errorf("%w: %s does not have the %d bytes and the SHA-256 of the manifest", ErrDamaged, s.Name, s.Bytes)
	}
	return nil
}

func (a *Archive) open(s *Stream) (fs.File, error) {
	in, err := a.zip.Open(s.entry())
	if err != nil {
		return nil, fmt.Errorf("%w: it has no %s", ErrDamaged, s.entry())
	}
	return in, nil
}
