// Package excerpts keeps what loops repeat, as text, for people who look: in this process
// alone, bounded, and for minutes. It masks secrets, and serves what it has over HTTP.
//
// It does not know how a loop is found, or who may look.
package excerpts

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/maypok86/otter/v2"

	"github.com/unloop/unloop/gateway/internal/text/excerpt"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/schemas/excerpts"
)

const (
	// Messages is the number of newest messages that are read, and rounds that of the newest
	// rounds which are kept.
	Messages = 48
	rounds   = 12
	// most bounds each text, in bytes.
	most = 2 << 10
	// loops is the number of loops that are kept, and kept how long each is after it was
	// seen last.
	loops = 100
	kept  = 15 * time.Minute
	// atOnce is the number of requests of a loop that are read whenever they come, and pause
	// the least time between two further ones.
	atOnce = 16
	pause  = time.Second
)

// Book keeps the excerpts of loops. It is safe for concurrent use.
type Book struct {
	loops *otter.Cache[string, loop]
}

// loop is what is kept of a loop, and how many of its requests were read.
type loop struct {
	excerpts.Loop
	reads int
}

// New returns an empty book.
func New() *Book {
	return &Book{otter.Must(&otter.Options[string, loop]{MaximumSize: loops, ExpiryCalculator: otter.ExpiryWriting[string, loop](kept)})}
}

// Wants reports whether a request of a loop is to be read: one of many that came just behind
// another one says nothing new.
func (b *Book) Wants(loopID string, now time.Time) bool {
	l, known := b.loops.GetIfPresent(loopID)
	return loopID != "" && (!known || l.reads < atOnce || now.Sub(l.At) >= pause)
}

// Read keeps what the request of a loop shows of it. The request is read again, because its
// history was dropped once it was evidence.
func (b *Book) Read(loopID string, req *request.Request, now time.Time) {
	prompt, err := req.Provider.Parse(req.Body.Inspected(), provider.Options{Tail: Messages, Path: req.Path})
	if err == nil && prompt != nil {
		b.Keep(loopID, prompt.Transcript, now)
	}
}

// Keep keeps what a conversation shows of a loop. It reads the Messages newest messages.
func (b *Book) Keep(loopID string, t *transcript.Transcript, now time.Time) {
	before, _ := b.loops.GetIfPresent(loopID)
	l := loop{Of(t), before.reads + 1}
	l.LoopID, l.At = loopID, now.UTC()
	b.loops.Set(loopID, l)
}

// Of returns what a conversation shows: its newest human message and rounds.
func Of(t *transcript.Transcript) excerpts.Loop {
	shown, human := t.Show(rounds)
	l := excerpts.Loop{Prompt: clean(human)}
	for _, r := range shown {
		l.Rounds = append(l.Rounds, excerpts.Round{Said: clean(r.Said), Tool: clean(r.Tool), Arguments: clean(r.Arguments), Result: clean(r.Result)})
	}
	return l
}

// clean returns the beginning of a text without what looks like a secret.
func clean(text string) string {
	cut := len(text) > most
	if len(text) > 2*most { // what is cut in the middle of a secret is cut again
		text = text[:2*most]
	}
	text = excerpt.Mask(strings.ToValidUTF8(text, string(utf8.RuneError)))
	if len(text) > most {
		cut = true
		text = strings.ToValidUTF8(text[:most], "")
	}
	if cut {
		text += "…"
	}
	return text
}

// ServeHTTP answers with the excerpts.Loop of the path's id, which is empty if nothing is kept of
// it.
func (b *Book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	answer := excerpts.Loop{LoopID: r.PathValue("id")}
	if l, known := b.loops.GetIfPresent(answer.LoopID); known {
		answer = l.Loop
	}
	_ = json.NewEncoder(w).Encode(answer) // whoever left does not read it
}
