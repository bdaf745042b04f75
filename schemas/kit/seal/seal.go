// Package seal signs the records of operators, such as policies, and verifies them for those
// who follow them.
//
// Permissions of NATS do not protect records: the server answers requests of JetStream's API
// on any reply subject, so whoever may send a request can make the server write records. The
// package does not know what records mean.
package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
)

// A sealed record begins with a line that has the mark, the time of the seal in Unix
// nanoseconds and the signature. Its content follows.
const mark = "unloop-seal-1"

// Errors of records.
var (
	// ErrUnsealed means that a record has no seal.
	ErrUnsealed = errors.New("it has no operator's seal")
	// ErrForged means that a record's seal is not from a trusted key, or belongs to another
	// record.
	ErrForged = errors.New("its seal is not from a trusted key")
	// ErrOlder means that a record is older than the one in force.
	ErrOlder = errors.New("it is older than the record in force")
	// ErrKey means that a key can't be used.
	ErrKey = errors.New("key for seals")
)

// maxSeed is the largest size of a file with a seed, in bytes.
const maxSeed = 4 << 10

// Generate returns a new seed and its public key.
func Generate() (seed, public string, err error) {
	key, err := nkeys.CreateOperator()
	if err != nil {
		return "", "", fmt.Errorf("make a %w: %w", ErrKey, err)
	}
	defer key.Wipe()
	raw, err := key.Seed()
	if err == nil {
		public, err = key.PublicKey()
	}
	if err != nil {
		return "", "", fmt.Errorf("make a %w: %w", ErrKey, err)
	}
	return string(raw), public, nil
}

// Signer seals records. The nil Signer leaves them unsealed.
type Signer struct {
	key    nkeys.KeyPair
	public string
}

// NewSigner returns the signer of a seed, which begins with SO.
func NewSigner(seed string) (*Signer, error) {
	key, err := nkeys.FromSeed([]byte(strings.TrimSpace(seed)))
	if err != nil {
		return nil, fmt.Errorf("%w: it is no seed, which begins with SO", ErrKey)
	}
	public, err := key.PublicKey()
	if err != nil || !nkeys.IsValidPublicOperatorKey(public) {
		return nil, fmt.Errorf("%w: it is another kind of seed; one for seals begins with SO", ErrKey)
	}
	return &Signer{key, public}, nil
}

// ReadSigner returns the signer whose seed a file holds.
func ReadSigner(file string) (*Signer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read %w: %w", ErrKey, err)
	}
	s, err := NewSigner(string(data[:min(len(data), maxSeed)]))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return s, nil
}

// Public returns the public key; "" for the nil Signer.
func (s *Signer) Public() string {
	if s == nil {
		return ""
	}
	return s.public
}

// Seal returns a sealed record for a bucket's key. Of two records of a key, the one with the
// later time is in force.
func (s *Signer) Seal(bucket, key string, at time.Time, content []byte) ([]byte, error) {
	if s == nil {
		return content, nil
	}
	signature, err := s.key.Sign(signed(bucket, key, at.UnixNano(), content))
	if err != nil {
		return nil, fmt.Errorf("seal %s %s: %w", bucket, key, err)
	}
	line := fmt.Sprintf("%s %d %s\n", mark, at.UnixNano(), base64.RawURLEncoding.EncodeToString(signature))
	return append([]byte(line), content...), nil
}

// signed returns the bytes to sign: each part with its length.
func signed(bucket, key string, nanos int64, content []byte) []byte {
	out := []byte(mark + "\x00")
	for _, part := range [][]byte{[]byte(bucket), []byte(key), binary.BigEndian.AppendUint64(nil, uint64(nanos)), content} { //nolint:gosec // the bits of a time
		out = append(binary.BigEndian.AppendUint64(out, uint64(len(part))), part...)
	}
	return out
}

// Record is a record without its seal.
type Record struct {
	Content []byte
	// At is the time of the seal; zero without one.
	At time.Time
	// Sealed is set if the record has a seal, valid or not.
	Sealed bool

	signature []byte
}

// Read parses a record without verifying it.
func Read(value []byte) Record {
	line, content, ok := bytes.Cut(value, []byte("\n"))
	fields := strings.Fields(string(line[:min(len(line), len(mark)+128)]))
	if !ok || len(fields) != 3 || fields[0] != mark {
		return Record{Content: value}
	}
	nanos, err := strconv.ParseInt(fields[1], 10, 64)
	signature, also := base64.RawURLEncoding.DecodeString(fields[2])
	if errors.Join(err, also) != nil {
		return Record{Content: value}
	}
	return Record{Content: content, At: time.Unix(0, nanos).UTC(), Sealed: true, signature: signature}
}

// Trust has the trusted public keys. The zero Trust accepts every record, sealed or not.
type Trust struct{ keys []string }

// NewTrust returns the trust in public keys, which begin with O.
func NewTrust(public ...string) (Trust, error) {
	var faults []error
	for _, key := range public {
		if !nkeys.IsValidPublicOperatorKey(key) {
			faults = append(faults, fmt.Errorf("%w: %q is no public key for seals, which begins with O; `unloop nats config` writes it into gateway.env", ErrKey, key))
		}
	}
	return Trust{public}, errors.Join(faults...)
}

// Checks reports whether records need a seal.
func (t Trust) Checks() bool { return len(t.keys) > 0 }

// Open verifies and returns the record that is stored under a bucket's key.
func (t Trust) Open(bucket, key string, value []byte) (Record, error) {
	r := Read(value)
	switch {
	case !t.Checks():
		return r, nil
	case !r.Sealed:
		return Record{}, ErrUnsealed
	}
	over := signed(bucket, key, r.At.UnixNano(), r.Content)
	for _, public := range t.keys {
		if k, err := nkeys.FromPublicKey(public); err == nil && k.Verify(over, r.signature) == nil {
			return r, nil
		}
	}
	return Record{}, ErrForged
}
