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

// Files of the embedded server. The server holds its lock while it runs. Clients send the
// token only while the lock is held, and so never to another program on a stopped server's
// port.
const (
	tokenFile = "nats.token"
	lockFile  = "unloop.lock"
	// minToken is the least length of a token, in bytes.
	minToken = 16
)

// RuntimeDir returns the folder in which this user's servers write their tokens, by port:
// in the runtime folder (XDG Base Directory Specification), or else in the cache.
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

// StateDir returns the default data folder of the embedded server (XDG Base Directory
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

// Secret returns the secret in a file that only the user may read. It creates a missing
// file, and replaces one that others may read.
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

// ProofKey returns the key with which gateways of this user prove their identity; "" if it
// can't be stored. It is never sent.
func ProofKey() string {
	dir, err := StateDir()
	if err != nil {
		return ""
	}
	key, err := Secret(filepath.Join(dir, "gateway.key"))
	if err != nil {
		return ""
	}
	return key
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

// WritePrivate replaces a file with one that only the user may read.
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

// announcement is a server's token in a file for commands of the same user.
type announcement struct {
	token string
	lock  *flock.Flock
}

// announced returns the names of the files of the server at a port.
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

// withdraw removes the token. A nil announcement is a no-op.
func (a *announcement) withdraw() error {
	if a == nil {
		return nil
	}
	return errors.Join(os.Remove(a.token), os.Remove(a.lock.Path()), a.lock.Unlock())
}

// LocalToken returns the token of this user's embedded server at a URL on this machine; "" if
// not known, or if the URL has credentials. It searches the runtime folder, then the data
// folders.
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

// Serves reports whether an embedded server of this user runs on a data folder.
func Serves(dataDir string) bool {
	return heldToken(filepath.Join(dataDir, tokenFile), filepath.Join(dataDir, lockFile)) != ""
}

// heldToken returns a token if its server holds the lock; else "".
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

// localPort returns the port of a URL that has no credentials and names one server on
// this machine.
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

// WithLocalToken returns the option to use the current token of the embedded server on this
// machine.
func WithLocalToken(addr string, dataDirs ...string) nats.Option {
	if _, ok := localPort(addr); !ok {
		return func(*nats.Options) error { return nil }
	}
	return nats.TokenHandler(func() string { return LocalToken(addr, dataDirs...) })
}
