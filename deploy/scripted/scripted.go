// Package scripted is an upstream with scripted answers: an http.Handler that speaks the
// formats of the known providers, plain and streamed, and keeps every request exactly as it
// came. Tests and `unloop demo` use it in place of a model.
package scripted

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Request is a request of a client.
type Request struct {
	// Number counts requests from 1.
	Number int
	Method string
	// Target is the path with the query, as in the request line.
	Target string
	Host   string
	Header http.Header
	// TransferEncoding and ContentLength are as net/http has them.
	TransferEncoding []string
	ContentLength    int64
	Body             []byte
	// Chat is the body read as a chat completion; other formats share some of its
	// fields.
	Chat Chat
}

// Chat has the fields of a chat completion request that scripts use.
type Chat struct {
	Model         string    `json:"model"`
	Messages      []Message `json:"messages"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []json.RawMessage `json:"tools"`
}

// Message is one message of the history. Content is a string or a list of parts.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
}

// Text returns the content if it is a string, else "".
func (m Message) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) != nil {
		return ""
	}
	return s
}

// Last returns the last message, or an empty one.
func (c Chat) Last() Message {
	if len(c.Messages) == 0 {
		return Message{}
	}
	return c.Messages[len(c.Messages)-1]
}

// Script returns the answer to a request. It is called concurrently.
type Script func(Request) Reply

// Upstream serves a script and keeps requests. Make it with New.
type Upstream struct {
	script  Script
	forgets bool

	mu       sync.Mutex
	count    int
	requests []Request
	changed  chan struct{} // closed and replaced with each change
	left     []Request
}

// New returns an upstream with a script. A nil script answers Text("Hello!") to
// everything.
func New(script Script) *Upstream {
	if script == nil {
		script = func(Request) Reply { return Text("Hello!") }
	}
	return &Upstream{script: script, changed: make(chan struct{})}
}

// Handler returns a handler with a script that keeps no requests.
func Handler(script Script) http.Handler {
	u := New(script)
	u.forgets = true
	return u
}

// Requests returns all requests so far, in the order in which they came.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.requests)
}

// WaitRequests waits for n requests and returns all that have come.
func (u *Upstream) WaitRequests(ctx context.Context, n int) ([]Request, error) {
	return u.wait(ctx, func() []Request { return u.requests }, n)
}

// WaitLeft waits until n clients have hung up before their answer was complete, and returns
// their requests.
func (u *Upstream) WaitLeft(ctx context.Context, n int) ([]Request, error) {
	return u.wait(ctx, func() []Request { return u.left }, n)
}

func (u *Upstream) wait(ctx context.Context, list func() []Request, n int) ([]Request, error) {
	for {
		u.mu.Lock()
		got, changed := slices.Clone(list()), u.changed
		u.mu.Unlock()
		if len(got) >= n {
			return got, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, ctx.Err()
		}
	}
}

// ServeHTTP records the request and answers it by the script.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := u.record(r)
	if err != nil {
		u.noteLeft(req)
		return
	}
	reply := u.script(req)
	if !u.answer(r.Context(), w, req, reply) {
		u.noteLeft(req)
	}
}

// record reads and keeps a request. If the body is cut off, it keeps the beginning and returns
// the error.
func (u *Upstream) record(r *http.Request) (Request, error) {
	body, err := io.ReadAll(r.Body)
	req := Request{
		Method:           r.Method,
		Target:           r.RequestURI,
		Host:             r.Host,
		Header:           r.Header.Clone(),
		TransferEncoding: r.TransferEncoding,
		ContentLength:    r.ContentLength,
		Body:             body,
	}
	if json.Unmarshal(body, &req.Chat) != nil {
		req.Chat = Chat{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count++
	req.Number = u.count
	u.keep(&u.requests, req)
	return req, err
}

func (u *Upstream) noteLeft(req Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keep(&u.left, req)
}

// keep adds a request to a list and wakes all waiting callers. The lock is held.
func (u *Upstream) keep(list *[]Request, req Request) {
	if u.forgets {
		return
	}
	*list = append(*list, req)
	close(u.changed)
	u.changed = make(chan struct{})
}

// answer writes the reply and reports whether the client read all of it.
func (u *Upstream) answer(ctx context.Context, w http.ResponseWriter, req Request, reply Reply) bool {
	maps.Copy(w.Header(), reply.Header)
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
		_, err := w.Write(reply.Body)
		return err == nil
	}
	wire, streamed, known := wireOf(req)
	switch {
	case !known:
		return writeJSON(w, echo{Object: "echo", Method: req.Method, Target: req.Target, Body: string(req.Body)})
	case streamed:
		return wire.send(ctx, w, req, reply)
	default:
		return writeJSON(w, wire.whole(req, reply))
	}
}

func (r Request) path() string {
	path, _, _ := strings.Cut(r.Target, "?")
	return path
}
