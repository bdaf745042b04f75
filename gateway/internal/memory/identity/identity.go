// Package identity determines the caller, tenant, project and session of a request. Callers
// and sessions are hashes: API keys and names of sessions never leave the gateway.
//
// It knows headers and the parsed prompt, but not what an identity is used for.
package identity

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/checkpb"
)

// KeySize is the length of the key that callers are hashed with, in bytes.
const KeySize = 32

// ReadKey reads a key in hex digits. It returns nil for "".
func ReadKey(text string) (*[KeySize]byte, error) {
	if text == "" {
		return nil, nil
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("must be %d hex digits, such as `openssl rand -hex %d` prints", 2*KeySize, KeySize)
	}
	return (*[KeySize]byte)(key), nil
}

// maxLabel is the maximum length of tenant and project labels, which become subject tokens.
const maxLabel = 128

// sessionHeaders name the session; the first one that is set counts.
var sessionHeaders = []string{"X-Session-Id", "X-Claude-Code-Session-Id"}

// baggageKeys name the session in W3C baggage, as OpenTelemetry's semantic conventions do.
var baggageKeys = []string{"session.id", "gen_ai.conversation.id"}

// Headers of the labels.
const (
	tenantHeader  = "X-Tenant-Id"
	projectHeader = "X-Project-Id"
)

// Hasher makes identities with one key, which all gateways of a cluster share.
type Hasher struct {
	key [KeySize]byte
	// macs are HMACs (*mac) to reuse: creating one costs as much as a hash.
	macs sync.Pool
}

// NewHasher returns a hasher. The key must stay secret: with it, guesses of API keys can be
// tested.
func NewHasher(key [KeySize]byte) *Hasher { return &Hasher{key: key} }

// Identify returns a request's identity, and the name of its session. Sessions with the same
// name of two callers are different. If the request names no session, it is a hash of the
// conversation's opening.
func (h *Hasher) Identify(r *http.Request, apiKey, defaultProject string, p *provider.Prompt) (id *checkpb.Identity, name string) {
	caller := h.Caller(apiKey, user(p))
	session, name := h.session(r, caller, p)
	return &checkpb.Identity{
		Tenant:  bounded.Name(r.Header.Get(tenantHeader), maxLabel),
		Project: bounded.Name(cmp.Or(r.Header.Get(projectHeader), defaultProject), maxLabel),
		Caller:  caller,
		Session: session,
	}, name
}

// Caller returns the hash of an API key and an end user; "" for none.
func (h *Hasher) Caller(apiKey, user string) string { return h.sum("caller", apiKey, user) }

func user(p *provider.Prompt) string {
	if p == nil {
		return ""
	}
	return p.User
}

// session returns the session, and its name; "" if the request names none.
func (h *Hasher) session(r *http.Request, caller string, p *provider.Prompt) (session, name string) {
	if name := namedSession(r.Header, p); name != "" {
		return h.sum("session", caller, name), name
	}
	if p == nil || p.Opening.IsZero() {
		return "", ""
	}
	return h.sum("opening", caller, string(p.Opening[:])), ""
}

func namedSession(header http.Header, p *provider.Prompt) string {
	for _, name := range sessionHeaders {
		if id := header.Get(name); id != "" {
			return id
		}
	}
	if id := baggageSession(header.Values("Baggage")); id != "" {
		return id
	}
	if p == nil {
		return ""
	}
	return p.Session
}

// baggageSession returns the session in W3C baggage.
func baggageSession(headers []string) string {
	for member := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		pair, _, _ := strings.Cut(member, ";") // without properties
		key, value, _ := strings.Cut(pair, "=")
		if slices.Contains(baggageKeys, strings.TrimSpace(key)) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Pseudonym returns the hash that replaces the name of a user, session or conversation.
func (h *Hasher) Pseudonym(name string) string { return h.sum("pseudonym", name) }

// sum is the first half of HMAC-SHA256 over length-prefixed fields, in hex.
func (h *Hasher) sum(fields ...string) string {
	m, ok := h.macs.Get().(*mac)
	if !ok {
		m = &mac{Hash: hmac.New(sha256.New, h.key[:])}
	}
	defer h.macs.Put(m)
	m.text = m.text[:0]
	for _, f := range fields {
		m.text = append(binary.BigEndian.AppendUint64(m.text, uint64(len(f))), f...)
	}
	m.Reset()
	m.Write(m.text)
	m.text = m.Sum(m.text[:0])
	return hex.EncodeToString(m.text[:sha256.Size/2])
}

// mac is an HMAC with a buffer for the text that it hashes.
type mac struct {
	hash.Hash
	text []byte
}
