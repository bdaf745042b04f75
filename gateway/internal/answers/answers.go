// Package answers remembers which session an answer belongs to, so that a
// request which only names the answer it goes on from (previous_response_id)
// is known to continue that session, at whatever gateway it arrives.
//
// It knows ids and sessions as hashes, and reads no more of an answer than its
// beginning.
package answers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/gateway/internal/encoding"
	"github.com/unloop/unloop/schemas"
)

const (
	// keep is how long an answer's session is remembered. Providers keep answers
	// for longer, but an agent goes on sooner.
	keep = 24 * time.Hour
	// remembered bounds the answers that one gateway knows without asking.
	remembered = 50_000
	// head is how much of an answer is searched for its id, which comes first in
	// every answer that providers give.
	head = 32 << 10
	// looks bounds how often a beginning that grows is searched.
	looks = 16
)

// ErrUnknown says that no gateway has seen the answer, or not lately.
var ErrUnknown = errors.New("answer is not known")

// Store remembers sessions by answer.
type Store struct {
	nc    *nats.Conn
	known *otter.Cache[string, string]
}

// NewStore returns a store that shares what it knows in schemas.BucketSessions.
func NewStore(nc *nats.Conn) (*Store, error) {
	known, err := otter.New(&otter.Options[string, string]{MaximumSize: remembered})
	if err != nil {
		return nil, fmt.Errorf("make answer cache: %w", err)
	}
	return &Store{nc: nc, known: known}, nil
}

// Key hashes an answer's id together with its caller: another caller's answer
// of the same id is another answer.
func Key(caller, id string) string {
	sum := sha256.Sum256([]byte("unloop/answer/1\x00" + caller + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}

// Put remembers the session of an answer, and returns when every gateway can
// look it up, so that the client may go on from it at any of them. Without a
// store this gateway alone knows.
func (s *Store) Put(ctx context.Context, caller, id, session string) error {
	k := Key(caller, id)
	s.known.Set(k, session)
	ack, err := s.nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: "$KV." + schemas.BucketSessions + "." + schemas.AnswerKey(k), Data: []byte(session),
		Header: nats.Header{jetstream.MsgTTLHeader: {strconv.Itoa(int(keep / time.Second))}},
	})
	if err != nil {
		return fmt.Errorf("remember an answer: %w", err)
	}
	if bytes.Contains(ack.Data, []byte(`"error"`)) {
		return errors.New("remember an answer: the store refused it")
	}
	return nil
}

// Session returns the session of an answer, or ErrUnknown.
func (s *Store) Session(ctx context.Context, caller, id string) (string, error) {
	k := Key(caller, id)
	if session, ok := s.known.GetIfPresent(k); ok {
		return session, nil
	}
	reply, err := s.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET.KV_"+schemas.BucketSessions+".$KV."+schemas.BucketSessions+"."+schemas.AnswerKey(k), nil)
	if err != nil {
		return "", fmt.Errorf("look an answer up: %w", err)
	}
	if reply.Header.Get("Status") != "" || len(reply.Data) == 0 {
		return "", ErrUnknown
	}
	s.known.Set(k, string(reply.Data))
	return string(reply.Data), nil
}

// answerID is an answer's id as OpenAI's Responses API and those that follow it
// write it, in a JSON body as in the first event of a stream.
var answerID = regexp.MustCompile(`"id"\s*:\s*"(resp_[A-Za-z0-9_-]{1,128})"`)

// Watch returns an answer's body that calls found, once, with the answer's id
// when the client has read so far. The bytes pass as they are.
func Watch(res *http.Response, found func(id string)) io.ReadCloser {
	return &watched{ReadCloser: res.Body, encoding: res.Header.Get("Content-Encoding"), found: found}
}

type watched struct {
	io.ReadCloser
	encoding string
	found    func(string)
	seen     bytes.Buffer
	looked   int
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if w.found != nil {
		w.seen.Write(p[:min(n, head-w.seen.Len())])
		w.look(err != nil)
	}
	return n, err
}

// look searches what was seen, and gives up when that was all.
func (w *watched) look(end bool) {
	w.looked++
	if m := answerID.FindSubmatch(w.text()); m != nil {
		w.found(string(m[1]))
		end = true
	}
	if end || w.seen.Len() >= head || w.looked >= looks {
		w.found, w.seen = nil, bytes.Buffer{}
	}
}

// text is what was seen, decoded as far as it goes.
func (w *watched) text() []byte {
	if w.encoding == "" || w.encoding == "identity" {
		return w.seen.Bytes()
	}
	return encoding.Prefix(w.encoding, w.seen.Bytes(), 4*head)
}
