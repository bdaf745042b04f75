package endpoints

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/netip"
	"os"

	"github.com/unloop/unloop/schemas/kit/filewatch"
)

// Loader loads a file, and reloads it when it or a file with one of its secrets changes.
type Loader struct {
	file    string
	allowed []netip.Prefix
	env     Environment
	// data is the content that was loaded last, valid or not. secrets has a hash of each file
	// with a secret that it names.
	data    []byte
	secrets map[string][sha256.Size]byte
}

// NewLoader returns a loader of a file. Its endpoints may point to the allowed networks.
func NewLoader(file string, allowed []netip.Prefix, env Environment) *Loader {
	return &Loader{file: file, allowed: allowed, env: env}
}

// Load reads the file and makes its endpoints.
func (l *Loader) Load() ([]Built, error) {
	data, err := os.ReadFile(l.file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.file, err)
	}
	return l.load(data)
}

func (l *Loader) load(data []byte) ([]Built, error) {
	l.data, l.secrets = data, map[string][sha256.Size]byte{}
	all, err := Load(data, l.allowed, Environment{Getenv: l.env.Getenv, ReadFile: func(name string) ([]byte, error) {
		text, err := l.env.ReadFile(name)
		l.secrets[name] = sha256.Sum256(text)
		return text, err
	}})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.file, err)
	}
	return all, nil
}

// Follow calls apply with the endpoints of each new content, or faulty with its error, until
// the context ends.
func (l *Loader) Follow(ctx context.Context, apply func([]Built), faulty func(error)) error {
	reload := func(data []byte) {
		all, err := l.load(data)
		if err != nil {
			faulty(err)
			return
		}
		apply(all)
	}
	return filewatch.Follow(ctx, l.file, l.data, reload, func() {
		if l.rotated() {
			reload(l.data)
		}
	})
}

// rotated reports whether a file with a secret has changed.
func (l *Loader) rotated() bool {
	now := map[string][sha256.Size]byte{}
	for name := range l.secrets {
		text, _ := l.env.ReadFile(name) // a missing file has changed
		now[name] = sha256.Sum256(text)
	}
	return !maps.Equal(now, l.secrets)
}
