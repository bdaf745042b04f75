// Package logs reads recorded LLM traffic, one request after the other, so that
// it can be run through the detectors offline.
//
// It knows four kinds of input, and tells them apart by what is in them: our own
// recordings ([record.Record]), sessions as OpenAI messages, LiteLLM's logs, and
// OpenTelemetry exports with GenAI spans. All are JSON: a value a line, one array,
// or one value over many lines. It reads in one pass and holds one value (for
// OpenTelemetry: one span) at a time. It knows nothing of detectors, policies,
// NATS or HTTP servers.
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
)

// The paths of requests whose input does not say how they were made.
const (
	pathChat      = "/v1/chat/completions"
	pathResponses = "/v1/responses"
	pathMessages  = "/v1/messages"
)

// Request is one recorded request, or what came of an earlier one.
type Request struct {
	Source Source
	// Answer is set where the entry is no request but the answer to an earlier one;
	// then only Source, Line and Time hold besides.
	Answer *Answer
	// ID is what an answer refers to; "" where there is none to come.
	ID string
	// Line is where the request stands in the input, from 1: for values over many
	// lines, where the value begins.
	Line int
	// Time is when it was made; zero where the input does not say, as for sessions.
	Time time.Time
	// Method and Path, with the query, are as the client sent them, or the usual
	// ones of the format.
	Method, Path string
	// Upstream is the name of where the request went, as far as it was recorded.
	Upstream string
	Header   map[string]string // lower-case names; only what identifies format and session
	// Tenant, Project, Caller, Session and User are as recorded. Caller stands for
	// the API key and is a hash. Any of them may be empty.
	Tenant, Project, Caller, Session, User string
	// DerivedSession is the session by which a gateway knew a request without one;
	// TenantVerified says that the tenant was proven.
	DerivedSession string
	TenantVerified bool
	Model          string
	// Body is the body, valid only until the next request is asked for.
	Body []byte
	// Stopped says that Unloop had stopped the request, so that the status is not
	// the upstream's. Operator is what an operator had done with it, as recordings
	// say it.
	Stopped  bool
	Operator string
	// Outcome is what came of it, as far as the entry itself says.
	Outcome
}

// Outcome is what came of a request.
type Outcome struct {
	// Status is the HTTP status that it was answered with, as far as it is known or
	// can be concluded; else 0.
	Status int
	// InputTokens, of which CachedTokens were read from a cache, OutputTokens and
	// USD are what it cost; 0 where the input does not say.
	InputTokens, CachedTokens, OutputTokens int
	USD                                     float64
}

// Answer is what came of the request with an ID.
type Answer struct {
	To string
	Outcome
}

var (
	// ErrUnknown is an input, or an entry of it, of none of the kinds known.
	ErrUnknown = errors.New("not a recording, session, LiteLLM log or OpenTelemetry export")
	// ErrSyntax is an entry that is not valid JSON.
	ErrSyntax = errors.New("not valid JSON")
	// ErrTooLong is an entry beyond the limit.
	ErrTooLong = errors.New("entry is too long")
	// ErrNoMessages is a request that was logged without its messages.
	ErrNoMessages = errors.New("logged without its messages")
	// ErrVersion is a recording of a version that this one cannot read.
	ErrVersion = errors.New("recorded by a newer version")
)

// Error is what is wrong with an input, and where.
type Error struct {
	Line int // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause, one of the errors above or that of reading.
func (e *Error) Unwrap() error { return e.Err }

// Limit is how long an entry may be, in bytes. A session of 2 000 messages with a
// megabyte of results stays far below it.
const Limit = 64 << 20

// Open returns the requests in r, in their order. An entry that cannot be used
// yields an [*Error] in its place; where it is clear where the next begins, the
// sequence goes on after it, so the caller decides whether to stop. It can be
// ranged over once.
func Open(r io.Reader) iter.Seq2[Request, error] { return open(r, Limit) }

// open is Open with another limit.
func open(r io.Reader, limit int) iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		newInput(r, limit).read(&sink{yield: yield})
	}
}

// sink takes requests and errors on their way to the caller. Once done, the caller
// wants no more.
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
