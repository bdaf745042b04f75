// Package agents reads the sessions that coding agents store, as steps: what somebody said,
// what the model answered, and what calls returned. Each agent has a file with its format and an
// entry in All.
//
// It only reads files. It knows neither detectors nor reports.
package agents

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unloop/unloop/deploy/replay/logs"
)

// Agent is a program that stores its sessions.
type Agent struct {
	// Name is an identifier, Title the name for people.
	Name, Title string
	// Guard is the command that runs it through Unloop.
	Guard string
	// Folders are relative to the home folder. If the variable Env is set, it replaces the
	// first segment of each.
	Folders []string
	Env     string
	// Keeps reports whether a file in one of the folders has sessions, by its path.
	Keeps func(path string) bool
	// Recognizes reports whether a file elsewhere has sessions, by its name and beginning.
	Recognizes func(name string, begin []byte) bool
	// Parts returns the parts of a file that can be read separately. It is nil if files are read
	// as a whole.
	Parts func(path string) ([]Part, error)
	// Read yields the steps of a part of a file in order, and errors for what can't be read. The
	// part is "" for a file without parts.
	Read func(path, part string) iter.Seq2[Step, error]
}

// Part is a part of a file with its share of the size.
type Part struct {
	Name  string
	Share float64
}

// All are the agents whose sessions can be read.
var All = []*Agent{&claude, &codex, &gemini, &opencode, &copilot, &sweAgent, &openHands}

// Of returns the agent that wrote a file, or nil.
func Of(path string) (*Agent, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	begin := make([]byte, 4096)
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, a := range All {
		if a.Recognizes(filepath.Base(path), begin[:n]) {
			return a, nil
		}
	}
	return nil, nil
}

// Kind is the kind of a step.
type Kind uint8

// The kinds of steps.
const (
	// Said is a message of a human, or of the program in a human's place.
	Said Kind = iota + 1
	// Answered is an answer of the model, or a piece of one.
	Answered
	// Returned is the result of a call.
	Returned
	// Compacted replaces everything before it with a summary.
	Compacted
	// Ended says that the file has no further step of the session.
	Ended
)

// Step is a step of a session.
type Step struct {
	Kind Kind
	// Session is the id of the conversation; that of a sub-agent is its own.
	Session string
	Time    time.Time
	Line    int
	// Read is the offset of its end in the file; 0 if not known.
	Read int64
	Text string
	// Quoted is the text of a result as a JSON string; nil for Text.
	Quoted jsontext.Value
	// ID is the id of an answer, which all its pieces share, or of the call that a result is for.
	ID string
	// Origin identifies an answer in all copies of its session, such as the one that a resumed
	// session begins with; "" if not known.
	Origin string
	Calls  []Call
	Failed bool
	Model  string
	Usage  Usage
}

// Call is a tool call of an answer.
type Call struct {
	ID, Tool string
	// Arguments are JSON.
	Arguments jsontext.Value
}

// Usage is what an answer used; zero if not recorded.
type Usage struct {
	// Input are all input tokens, with those read from a cache (Cached), and those written to
	// one for five minutes (Written) or an hour (WrittenHour).
	Input, Cached, Written, WrittenHour, Output int
	USD                                         float64
}

// Limit bounds a line, and a file that is one value, in bytes.
const Limit = logs.Limit

// decode reads JSON. Names may occur twice, and invalid UTF-8 is replaced, because agents write
// what they were given.
func decode(data []byte, v any) error { return json.Unmarshal(data, v, lenient) }

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// lines reads a file of JSON lines. It calls read with each line, which is valid until read returns,
// to yield the line's steps. Lines that can't be read yield errors.
func lines(path string, read func(line []byte, n int, yield func(Step) bool) error) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(Step{}, err)
			return
		}
		defer func() { _ = f.Close() }() // it was only read
		in := logs.NewLines(f, Limit)
		for more := true; more; {
			line, err := in.Next()
			last := err != nil && !errors.Is(err, logs.ErrTooLong)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if err == nil && len(line) > 0 {
				err = read(line, in.N, func(s Step) bool {
					s.Line, s.Read = in.N, in.Bytes
					more = yield(s, nil)
					return more
				})
			}
			if err != nil && more {
				more = yield(Step{}, fmt.Errorf("line %d: %w", in.N, err))
			}
			more = more && !last
		}
	}
}

// whole reads a file that is one JSON value. Progress is estimated from the number of steps.
func whole[T any](path string, steps func(v *T) []Step) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		v := new(T)
		data, err := readFile(path)
		if err == nil {
			err = decode(data, v)
		}
		if err != nil {
			yield(Step{}, err)
			return
		}
		all := steps(v)
		for i, s := range all {
			if s.Read = int64(float64(len(data)) * float64(i+1) / float64(len(all))); !yield(s, nil) {
				return
			}
		}
	}
}

// readFile reads a file of at most Limit bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, Limit+1))
	if err == nil && len(text) > Limit {
		return nil, logs.ErrTooLong
	}
	return text, err
}

// result reads a content like text, but keeps a string quoted if we would quote it the same way. Most
// of the data are such strings.
type result struct {
	text   text
	quoted jsontext.Value
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (r *result) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		return json.UnmarshalDecode(d, &r.text)
	}
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if bytes.Contains(value, []byte(`\u`)) || bytes.Contains(value, []byte(`\/`)) || !utf8.Valid(value) {
		return decode(value, &r.text)
	}
	r.quoted = bytes.Clone(value)
	return nil
}

// text reads a content that is a string or a list of parts with texts.
type text string

// UnmarshalJSONFrom implements json.UnmarshalerFrom. Parts of other kinds have no text, and any
// other value is the text.
func (t *text) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"':
		return json.UnmarshalDecode(d, (*string)(t))
	case 'n':
		return d.SkipValue()
	}
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	var parts []struct {
		Text   string `json:"text"`
		Output string `json:"output"`
	}
	var all strings.Builder
	if another := decode(value, &parts); another != nil {
		parts = nil
		all.Write(value)
	}
	for _, p := range parts {
		if p.Text != "" && all.Len() > 0 {
			all.WriteByte('\n')
		}
		all.WriteString(p.Text + p.Output)
	}
	*t = text(all.String())
	return nil
}
