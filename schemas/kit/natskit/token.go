package natskit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/access"
)

// Files of the embedded server. Each token has a lock beside it that the server
// holds while it runs: a token is sent only to a server that holds it, never to
// what took a stopped server's port.
const (
	tokenFile = "nats.token"
	lockFile  = "unloop.lock"
	// minToken is the shortest token that is taken, in bytes.
	minToken = 16
)

// RuntimeDir is where servers of this user tell their tokens, by port: the
// user's runtime folder (XDG Base Directory Specification), else the cache.
func RuntimeDir() (string, error) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "unloop"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's runtime folder: %w", err)
	}
	return filepath.Join(dir, "unloop", "run"), nil
}

// StateDir is the embedded server's data folder by default (XDG Base Directory
// Specification).
func StateDir() (string, error) {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "unloop"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the user's state folder: %w; name a folder with --data-dir", err)
	}
	return filepath.Join(home, ".local", "state", "unloop"), nil
}

// Secret returns the secret in a file that nobody else may read, and makes one
// where there is none. One that others could read is replaced.
func Secret(file string) (string, error) {
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 == 0 {
		text, err := readToken(file)
		if err == nil {
			return text, nil
		}
	}
	secret := newToken()
	return secret, WritePrivate(file, secret)
}

func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never errs
	return hex.EncodeToString(b[:])
}

func readToken(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minToken || strings.ContainsAny(token, "/@: ") {
		return "", fmt.Errorf("file %s holds no token", file)
	}
	return token, nil
}

// WritePrivate replaces a file by one that nobody else may read.
func WritePrivate(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("make folder for %s: %w", filepath.Base(file), err)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", filepath.Base(file), err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}

// announcement tells a server's token to commands of the same user.
type announcement struct {
	token string
	lock  *flock.Flock
}

// announced are the files of the server at a port.
func announced(dir, port string) (token, lock string) {
	base := filepath.Join(dir, "nats-"+port)
	return base + ".token", base + ".lock"
}

// announce writes the token of the server at a port until withdraw is called.
func announce(dir, port, token string) (*announcement, error) {
	file, lockName := announced(dir, port)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make runtime folder: %w", err)
	}
	lock := flock.New(lockName)
	if held, err := lock.TryLock(); err != nil || !held {
		return nil, fmt.Errorf("lock %s: %w", lockName, errors.Join(err, ErrDataDirInUse))
	}
	if err := WritePrivate(file, token); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return &announcement{file, lock}, nil
}

// withdraw removes the token. The nil announcement was never made.
func (a *announcement) withdraw() error {
	if a == nil {
		return nil
	}
	return errors.Join(os.Remove(a.token), os.Remove(a.lock.Path()), a.lock.Unlock())
}

// LocalToken is the token of the embedded server at a URL on this machine, where
// this user runs it; "" if it is not known, or the URL has credentials. It is
// looked for in the runtime folder, then in data folders.
func LocalToken(addr string, dataDirs ...string) string {
	port, ok := localPort(addr)
	if !ok {
		return ""
	}
	if dir, err := RuntimeDir(); err == nil {
		if token := heldToken(announced(dir, port)); token != "" {
			return token
		}
	}
	if dir, err := StateDir(); err == nil {
		dataDirs = append(dataDirs, dir)
	}
	for _, dir := range dataDirs {
		if token := heldToken(filepath.Join(dir, tokenFile), filepath.Join(dir, lockFile)); token != "" {
			return token
		}
	}
	return ""
}

// heldToken is a token whose lock is held by the server; "" otherwise.
func heldToken(file, lockName string) string {
	if _, err := os.Stat(lockName); err != nil {
		return ""
	}
	lock := flock.New(lockName)
	if free, err := lock.TryRLock(); err != nil || free {
		_ = lock.Unlock() // the server is gone
		return ""
	}
	token, err := readToken(file)
	if err != nil {
		return ""
	}
	return token
}

// localPort is the port of a single server on this machine whose URL has no
// credentials.
func localPort(addr string) (string, bool) {
	if !strings.Contains(addr, "://") {
		addr = "nats://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil || u.User != nil || !access.Loopback(u.Hostname()) {
		return "", false
	}
	if u.Port() == "" {
		return "4222", true
	}
	return u.Port(), true
}

// WithLocalToken returns the option that has a connection show the token of
// the embedded server on this machine, as it is at that time.
func WithLocalToken(addr string, dataDirs ...string) nats.Option {
	if _, ok := localPort(addr); !ok {
		return func(*nats.Options) error { return nil }
	}
	return nats.TokenHandler(func() string { return LocalToken(addr, dataDirs...) })
}
