// Package backup copies the streams and buckets that Unloop keeps in NATS to a file, and
// restores them from it.
//
// A backup is a zip archive with a JetStream snapshot of each stream, which preserves
// revisions, the times and TTLs of records, and the positions of durable consumers. The
// manifest is its last entry, so that a truncated archive has none. The package knows the
// names of streams, but not the records in them.
package backup

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Format is the version of the archive format. Open reads it and all earlier ones.
const Format = 1

// manifestName is the entry of the archive that describes the others.
const manifestName = "manifest.json"

var (
	// ErrNothing means that there is nothing to back up.
	ErrNothing = errors.New("no stream of Unloop is on this NATS server")
	// ErrGrew means that partitions were added during the backup, which lacks their streams.
	ErrGrew = errors.New("partitions were added meanwhile: repeat the backup")
	// ErrExists means that the file of a new backup exists.
	ErrExists = errors.New("file exists already")
	// ErrInMemory means that a stream is stored in memory. Servers make no snapshots of it.
	ErrInMemory = errors.New("stream is stored in memory, which NATS servers cannot back up")
)

// Manifest describes a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	// Unloop and Server are the versions of the program that wrote the backup and of the
	// NATS server.
	Unloop  string   `json:"unloop"`
	Server  string   `json:"server"`
	Streams []Stream `json:"streams"`
}

// Records returns the number of messages in all streams.
func (m *Manifest) Records() (n uint64) {
	for i := range m.Streams {
		n += m.Streams[i].State.Messages
	}
	return n
}

// Stream is one stream in a backup.
type Stream struct {
	Name string `json:"name"`
	// Config is the stream's configuration as the server has it.
	Config json.RawMessage `json:"config"`
	State  State           `json:"state"`
	// Bytes and SHA256 are those of the snapshot.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// State is the part of a stream's state that a restore needs.
type State struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
}

// entry is the name of the snapshot in the archive.
func (s *Stream) entry() string { return s.Name + ".snapshot" }

// Streams returns the names of all streams in a backup of a system with partitions.
func Streams(partitions int) []string {
	return natskit.Layout{Partitions: partitions}.Everything().Streams()
}

// Create backs up all streams to a new file, verifies it, and returns its manifest. If it
// fails, there is no file.
func Create(ctx context.Context, js jetstream.JetStream, file string) (m *Manifest, err error) {
	if _, err := os.Lstat(file); err == nil {
		return nil, fmt.Errorf("%w: %s", ErrExists, file)
	}
	partial, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*.partial") // for the user alone
	if err != nil {
		return nil, fmt.Errorf("create a file for the backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(partial.Name()))
		}
	}()
	err = write(ctx, js, partial)
	err = errors.Join(err, partial.Sync(), partial.Close())
	if err != nil {
		return nil, err
	}
	a, err := Open(partial.Name())
	if err != nil {
		return nil, fmt.Errorf("verify what was written: %w", err)
	}
	err = errors.Join(a.Close(), os.Rename(partial.Name(), file))
	return &a.Manifest, err
}

// write writes the snapshots of all streams and then the manifest.
func write(ctx context.Context, js jetstream.JetStream, w io.Writer) error {
	archive := zip.NewWriter(w)
	m := Manifest{Format: Format, Created: time.Now().UTC(), Unloop: service.BuildInfo().Version, Server: js.Conn().ConnectedServerVersion()}
	scheme, _, err := natskit.ReadPartitions(ctx, js)
	if err != nil {
		return err
	}
	for _, name := range Streams(scheme.Count) {
		s, err := add(ctx, js, archive, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			continue // an older version made fewer
		case err != nil:
			return fmt.Errorf("back up %s: %w", name, err)
		}
		m.Streams = append(m.Streams, s)
	}
	if len(m.Streams) == 0 {
		return ErrNothing
	}
	// A record that moved to another partition meanwhile is not lost: its new stream was added
	// after its old one.
	after, _, err := natskit.ReadPartitions(ctx, js)
	if err != nil {
		return err
	}
	if after.Count != scheme.Count {
		return ErrGrew
	}
	out, err := archive.Create(manifestName)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", " ")
	return errors.Join(enc.Encode(m), archive.Close())
}

// add writes the snapshot of one stream.
func add(ctx context.Context, js jetstream.JetStream, archive *zip.Writer, name string) (Stream, error) {
	s := Stream{Name: name}
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return s, err
	}
	if stream.CachedInfo().Config.Storage == jetstream.MemoryStorage {
		return s, ErrInMemory
	}
	out, err := archive.CreateHeader(&zip.FileHeader{Name: s.entry(), Method: zip.Store}) // snapshots are compressed
	if err != nil {
		return s, err
	}
	sum := sha256.New()
	err = s.snapshot(ctx, server{js}, io.MultiWriter(out, sum))
	s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return s, err
}
