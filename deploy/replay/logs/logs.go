// Package logs reads recorded LLM traffic as a sequence of requests, which package
// replay evaluates.
//
// It recognizes inputs by content: our own recordings ([record.Record]), sessions as OpenAI
// messages, LiteLLM's logs, exports of Langfuse and Helicone, and OpenTelemetry exports with
// GenAI spans. All are JSON: one value per line, one array, or one value over many lines. It
// reads in one pass and holds one value at a time; of OpenTelemetry, one span. It knows neither
// detectors nor policies.
package logs

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// Source is the kind of input that a request came from.
type Source string

// The kinds of input.
const (
	Recording     Source = "recording"
	Session       Source = "session"
	LiteLLM       Source = "litellm"
	OpenTelemetry Source = "opentelemetry"
	Langfuse      Source = "langfuse"
	Helicone      Source = "helicone"
)

// The paths of requests without a recorded path.
const (
	pathChat      = "/v1/chat/completions"
	pathResponses = "/v1/responses"
	pathMessages  = "/v1/messages"
)

// Request is one recorded request, or the answer to an earlier one.
type Request struct {
	Source Source
	// Answer is set if the entry is the answer to an earlier request. Then only Source, Line,
	// Read and Time are set beside it.
	Answer *Answer
	// ID identifies the request for its answer; "" if the answer is not a separate entry. Origin
	// identifies it in all copies of its session; "" if not known.
	ID, Origin string
	// Line is the line of the request in the input, from 1: the first line of a value
	// over many lines.
	Line int
	// Read is the number of bytes of the input up to the end of the request; 0 if not known.
	Read int64
	// Share is the part of its entry up to the end of the request, if the entry has several; 0
	// means all.
	Share float64
	// Time is the time of the request; zero if it is not recorded, as in sessions.
	Time time.Time
	// Method and Path, with the query, are those of the client, or else the usual ones of
	// the format.
	Method, Path string
	// Upstream is the name of the upstream, if it was recorded.
	Upstream string
	Header   map[string]string // lower-case names; only what identifies format and session
	// Tenant, Project, Caller, Session and User are as recorded; any may be empty. Caller
	// is a hash of the API key.
	Tenant, Project, Caller, Session, User string
	// DerivedSession is the session that a gateway derived for a request without one.
	// TenantVerified says that the tenant was authenticated.
	DerivedSession string
	TenantVerified bool
	Model          string
	// Body is valid only until the next request is read. A request of a Conversation has none,
	// but the messages that it adds to that.
	Body         []byte
	Conversation *Conversation
	Added        [][]byte
	// Stopped says that Unloop refused the request, so that the status is not the
	// upstream's. Operator is the recorded effect of an override or a kill switch.
	Stopped  bool
	Operator string
	// Outcome is the outcome, if it is in the same entry.
	Outcome
}

// Outcome is the outcome of a request.
type Outcome struct {
	// Status is the HTTP status of the answer, recorded or concluded; 0 if it is not
	// known.
	Status int
	// InputTokens (including CachedTokens, which were read from a cache), OutputTokens and
	// USD are the cost; 0 if it is not recorded.
	InputTokens, CachedTokens, OutputTokens int
	// WrittenTokens are those of the input that were written to a cache for five minutes,
	// WrittenHourTokens for an hour.
	WrittenTokens, WrittenHourTokens int
	USD                              float64
}

// Answer is the outcome of the request with an ID.
type Answer struct {
	To string
	Outcome
}

var (
	// ErrUnknown is the error for an input or an entry of an unknown kind.
	ErrUnknown = errors.New("not a recording, session, LiteLLM log, or export of OpenTelemetry, Langfuse or Helicone")
	// ErrSyntax is the error for an entry that is not valid JSON.
	ErrSyntax = errors.New("not valid JSON")
	// ErrTooLong is the error for an entry beyond the limit.
	ErrTooLong = errors.New("entry is too long")
	// ErrNoMessages is the error for a request that was logged without its messages.
	ErrNoMessages = errors.New("logged without its messages")
	// ErrVersion is the error for a recording of a newer version.
	ErrVersion = errors.New("recorded by a newer version")
)

// Error is a fault of an entry, with its line.
type Error struct {
	Line int // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause, one of the errors above or that of reading.
func (e *Error) Unwrap() error { return e.Err }

// Limit is the size limit of an entry in bytes. A session of 2,000 messages with a megabyte of
// results stays far below it.
const Limit = 64 << 20

// Open returns the requests in r, in their order. A faulty entry yields an [*Error] in
// its place, and the sequence goes on with the next entry if its beginning is known. It
// can be ranged over once.
func Open(r io.Reader) iter.Seq2[Request, error] { return open(r, Limit) }

// open is Open with another limit.
func open(r io.Reader, limit int) iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		newInput(r, limit).read(&sink{yield: yield})
	}
}

// sink passes requests and errors to the caller. done says that the caller wants no
// more.
type sink struct {
	yield func(Request, error) bool
	line  int // of the entry that is being read
	done  bool
}

func (s *sink) request(r Request) {
	if s.done {
		return
	}
	if r.Line == 0 {
		r.Line = s.line
	}
	if r.Method == "" && r.Answer == nil {
		r.Method = "POST"
	}
	s.done = !s.yield(r, nil)
}

func (s *sink) fail(err error) {
	if s.done {
		return
	}
	s.done = !s.yield(Request{}, &Error{Line: s.line, Err: err})
}
