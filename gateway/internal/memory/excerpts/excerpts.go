// Package excerpts caches the text that loops repeat, for people who look at a loop: only in
// this process, bounded, and for minutes. It masks secrets, and serves excerpts over HTTP.
//
// It does not know how a loop is found, or who may look at it.
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
	// Messages is the number of newest messages that are read, and rounds the number of
	// newest rounds that are kept.
	Messages = 48
	rounds   = 12
	// maxText is the maximum length of each text, in bytes.
	maxText = 2 << 10
	// maxLoops is the maximum number of loops, and ttl the time that each is kept after its
	// newest request.
	maxLoops = 100
	ttl      = 15 * time.Minute
	// burst is the number of requests of a loop that are always read, and interval the
	// minimum time between further ones.
	burst    = 16
	interval = time.Second
)

// Cache has the excerpts of loops. It is safe for concurrent use.
type Cache struct {
	loops *otter.Cache[string, loop]
}

// loop is the excerpt of a loop, with the number of its requests that were read.
type loop struct {
	excerpts.Loop
	reads int
}

// New returns an empty cache.
func New() *Cache {
	return &Cache{otter.Must(&otter.Options[string, loop]{MaximumSize: maxLoops, ExpiryCalculator: otter.ExpiryWriting[string, loop](ttl)})}
}

// Wants reports whether a request of a loop should be read. Most of many requests in a short
// time show nothing new.
func (c *Cache) Wants(loopID string, now time.Time) bool {
	l, known := c.loops.GetIfPresent(loopID)
	return loopID != "" && (!known || l.reads < burst || now.Sub(l.At) >= interval)
}

// Read keeps what the request of a loop shows. It parses the request again, because its
// history is dropped after the check.
func (c *Cache) Read(loopID string, req *request.Request, now time.Time) {
	prompt, err := req.Provider.Parse(req.Body.Inspected(), provider.Options{Tail: Messages, Path: req.Path})
	if err == nil && prompt != nil {
		c.Keep(loopID, prompt.Transcript, now)
	}
}

// Keep keeps what a conversation with the newest Messages messages shows of a loop.
func (c *Cache) Keep(loopID string, t *transcript.Transcript, now time.Time) {
	before, _ := c.loops.GetIfPresent(loopID)
	l := loop{Of(t), before.reads + 1}
	l.LoopID, l.At = loopID, now.UTC()
	c.loops.Set(loopID, l)
}

// Of returns the excerpt of a conversation: its newest human message and rounds.
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
	cut := len(text) > maxText
	text = text[:min(len(text), 2*maxText)] // half of a secret at this end is cut below
	text = excerpt.Mask(strings.ToValidUTF8(text, string(utf8.RuneError)))
	if len(text) > maxText {
		cut = true
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	if cut {
		text += "…"
	}
	return text
}

// ServeHTTP answers with the excerpts.Loop of the path's id, which is empty if that is not
// in the cache.
func (c *Cache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	answer := excerpts.Loop{LoopID: r.PathValue("id")}
	if l, known := c.loops.GetIfPresent(answer.LoopID); known {
		answer = l.Loop
	}
	_ = json.NewEncoder(w).Encode(answer) // fails if the client left
}
