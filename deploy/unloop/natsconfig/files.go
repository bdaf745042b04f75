package natsconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// Names of files for all servers.
const (
	fileCA    = "ca.pem"
	fileCAKey = "ca-key.pem"
)

// SealSeedFile is the file with the seed with which operators seal records.
const SealSeedFile = "seal.nk"

// ErrExists means that files exist already.
var ErrExists = errors.New("files are there already")

// SeedFile returns the name of the file with a user's nkey seed.
func SeedFile(user string) string { return user + ".nk" }

// EnvFile returns the name of the file with a user's environment variables.
func EnvFile(user string) string { return user + ".env" }

// ServerFile returns the name of a server's configuration.
func ServerFile(n Node) string { return n.Name + ".conf" }

// file is a file to write.
type file struct {
	name, text string
	// secret says that only its owner may read it, and that an existing one is kept.
	secret bool
}

// Options say what happens to existing files.
type Options struct {
	// Force replaces configurations, but reuses keys and certificates.
	Force bool
	// NewKeys replaces keys and certificates, too.
	NewKeys bool
}

// Write writes all files to a folder and returns their names. If one exists that it may not
// replace, it writes none.
func (c Config) Write(dir string, opts Options) (names []string, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder %s: %w", dir, err)
	}
	before := keeper{dir: dir, keep: opts.Force && !opts.NewKeys}
	files, err := c.files(before)
	if err != nil {
		return nil, err
	}
	if !opts.Force && !opts.NewKeys {
		if err := absent(dir, files); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		if err := f.write(dir); err != nil {
			return names, err
		}
		names = append(names, f.name)
	}
	return names, nil
}

// absent returns ErrExists if one of the files exists.
func absent(dir string, files []file) error {
	var there []string
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); err == nil {
			there = append(there, f.name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for %s: %w", f.name, err)
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("%w in %s: %s; --force rewrites the configuration and keeps keys and certificates; --new-keys replaces those, too",
			ErrExists, dir, strings.Join(there, ", "))
	}
	return nil
}

// write replaces a file atomically.
func (f file) write(dir string) error {
	mode := fs.FileMode(0o644)
	if f.secret {
		mode = 0o600
	}
	temp, err := os.CreateTemp(dir, ".unloop-*") // of mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", f.name, err)
	}
	_, err = temp.WriteString(f.text)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), filepath.Join(dir, f.name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.name, err), os.Remove(temp.Name()))
	}
	return nil
}

// keeper reads existing secrets.
type keeper struct {
	dir  string
	keep bool
}

// read returns the content of a file; "" if it is missing or not to be kept.
func (k keeper) read(name string) string {
	if !k.keep {
		return ""
	}
	data, err := os.ReadFile(filepath.Join(k.dir, name))
	if err != nil {
		return ""
	}
	return string(data)
}

// files returns all files.
func (c Config) files(before keeper) (all []file, err error) {
	seed, sealKey, err := sealSeed(before.read(SealSeedFile))
	if err != nil {
		return nil, fmt.Errorf("key in %s: %w", SealSeedFile, err)
	}
	if c.Origin != nil { // its operators seal
		sealKey = c.Origin.SealKey
	} else {
		all = append(all, file{SealSeedFile, seed + "\n", true})
	}
	public, users, err := c.users(before, sealKey)
	if err != nil {
		return nil, err
	}
	all = append(append(all, users...), c.joining()...)
	ca := ""
	if c.TLS.On {
		certs, err := c.certify(before)
		if err != nil {
			return nil, err
		}
		ca, all = certs[0].text, append(all, certs...)
	}
	servers, err := c.servers(before, public, sealKey, ca)
	if err != nil {
		return nil, err
	}
	all = append(all, servers...)
	slices.SortStableFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// users returns the files of all users, and their public keys.
func (c Config) users(before keeper, sealKey string) (public map[string]string, files []file, err error) {
	public = map[string]string{}
	for _, user := range append(natsperm.Names(), SystemUser) {
		seed, key, err := userKey(before.read(SeedFile(user)))
		if err != nil {
			return nil, nil, fmt.Errorf("key in %s: %w", SeedFile(user), err)
		}
		public[user] = key
		files = append(files, file{SeedFile(user), seed, true}, file{EnvFile(user), c.environment(user, sealKey), false})
	}
	return public, files, nil
}

// servers returns the configurations of servers, and the files with which regions join.
func (c Config) servers(before keeper, public map[string]string, sealKey, ca string) (files []file, err error) {
	links, err := c.invite(before, sealKey, ca)
	if err != nil {
		return nil, err
	}
	if files, err = invitations(links); err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		text, err := c.server(n, public, links)
		if err != nil {
			return nil, err
		}
		files = append(files, file{ServerFile(n), text, false})
	}
	return files, nil
}

// sealSeed returns a seed, a new one if it is "", and its public key.
func sealSeed(seed string) (text, public string, err error) {
	if seed == "" {
		return seal.Generate()
	}
	by, err := seal.NewSigner(seed)
	return trimmed(seed), by.Public(), err
}

func trimmed(seed string) string { return strings.TrimSpace(seed) }

// userKey returns a seed, a new one if it is "", and its public key.
func userKey(seed string) (text, public string, err error) {
	var key nkeys.KeyPair
	if seed == "" {
		key, err = nkeys.CreateUser()
	} else {
		key, err = nkeys.ParseDecoratedUserNKey([]byte(seed))
	}
	if err != nil {
		return "", "", err
	}
	defer key.Wipe()
	raw, err := key.Seed()
	if err != nil {
		return "", "", err
	}
	public, err = key.PublicKey()
	return string(raw) + "\n", public, err
}

// environment returns the variables with which the process of a user connects. sealKey is the
// public key of the operators' seed.
func (c Config) environment(user, sealKey string) string {
	lines := []string{
		"UNLOOP_NATS=" + c.URL(),
		"UNLOOP_NATS_NKEY=" + path.Join(c.ClientDir, SeedFile(user)),
		"UNLOOP_NATS_INBOX_PREFIX=" + natsperm.InboxPrefix(user),
	}
	if user == SystemUser {
		lines = lines[:2]
	}
	switch {
	case c.TLS.On:
		lines = append(lines, "UNLOOP_NATS_TLS_CA="+path.Join(c.ClientDir, fileCA))
	case c.TLS.CA != "":
		lines = append(lines, "UNLOOP_NATS_TLS_CA="+c.TLS.CA)
	}
	if c.Domain != "" {
		lines = append(lines, "UNLOOP_NATS_DOMAIN="+c.Domain)
	}
	if user != SystemUser && user != natsperm.Subscriber && user != natsperm.Monitor {
		lines = append(lines, fmt.Sprint("UNLOOP_REPLICAS=", c.Replicas))
	}
	switch user {
	case natsperm.Operator:
		lines = append(lines, c.operatorLines(sealKey)...)
	case natsperm.Gateway, natsperm.Notifier, natsperm.Monitor:
		lines = append(lines, "UNLOOP_SEAL_KEY="+sealKey)
	}
	return strings.Join(lines, "\n") + "\n"
}

// operatorLines returns the variables that only operators have.
func (c Config) operatorLines(sealKey string) (lines []string) {
	if c.Partitions > 1 {
		lines = append(lines, fmt.Sprint("UNLOOP_PARTITIONS=", c.Partitions))
	}
	if c.Origin != nil {
		return append(lines, "UNLOOP_SEAL_KEY="+sealKey, "UNLOOP_ORIGIN="+c.Origin.Origin)
	}
	lines = append(lines, "UNLOOP_SEAL_SEED="+path.Join(c.ClientDir, SealSeedFile))
	if len(c.Regions) > 0 {
		lines = append(lines, "UNLOOP_REGIONS="+strings.Join(c.Regions, ","))
	}
	return lines
}
