package conformance

import (
	"bytes"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// everything is a bundle with work for all readers of texts.
const everything = `bundle_version: 1
policies:
  - id: all
    spec:
      selector: {pathPrefix: /}
      include_excerpt: true
      loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 5}
      prompt: {}
      tool: {}
      cycle: {}
      semantic: {}
      session_repair: {enabled: true}
      rules:
        - {name: tokens, limit_keys: ["ip:address"], algorithm: token_bucket_llm, algorithm_config: {tokens_per_minute: 100000000}}
`

const (
	// small and large are the sizes, in bytes, of the bodies that are compared. A large
	// one is as large as a gateway inspects.
	small, large = 1 << 20, 8 << 20
	// mostHostile is how many times as long a byte of a hostile body may take as one of an
	// honest body, and mostLarge one of a large body as one of a small body. Readers with
	// n² steps take hundreds of times, and eight times, as long.
	mostHostile, mostLarge = 25, 4
)

// pieces is the number of messages that share a text.
const pieces = 8

// conversations have a text where different readers read it: in the only message, which
// may be a scratchpad; in what an agent without tools says and hears; and in calls with
// their results.
var conversations = map[string]func(text string) Conversation{
	"a prompt": func(text string) Conversation { return Conversation{Model: "m", Turns: []Turn{{Human: text}}} },
	"a chat": func(text string) Conversation {
		c := Conversation{Model: "m", System: text[:len(text)/pieces], Turns: []Turn{{Human: "go"}}}
		for piece := range inPieces(text[len(text)/pieces:]) {
			c.Turns = append(c.Turns, Turn{Said: piece}, Turn{Human: piece})
		}
		return c
	},
	"an agent": func(text string) Conversation {
		c := Conversation{Model: "m", Tools: []string{"run"}, Turns: []Turn{{Human: "go"}}}
		for piece := range inPieces(text) {
			call := Call{"c1", "run", string(marshal(object{"command": piece}))}
			c.Turns = append(c.Turns, Turn{Calls: []Call{call}}, Turn{Results: []Result{{ID: "c1", Tool: "run", Text: piece}}})
		}
		return c
	},
}

// inPieces yields the pieces of a text, each used twice.
func inPieces(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		length := len(text) / (2 * pieces)
		for i := range pieces {
			if !yield(text[i*length : (i+1)*length]) {
				return
			}
		}
	}
}

// sample makes bodies of a format of about any size.
type sample struct {
	name   string
	format provider.Provider
	body   func(size int) []byte
}

// ofText returns samples with a repeated text in a conversation.
func ofText(kind, name, unit string, p provider.Provider) sample {
	return sample{p.Name() + ", " + kind + " of " + name, p, func(size int) []byte {
		return Formats[p.Name()](conversations[kind](string(bytes.Repeat([]byte(unit), size/len(unit)))))
	}}
}

// A hostile body takes about as long, for each of its bytes, as an honest one; and a large
// body as a small one.
func TestTheTimeForEachByteIsBounded(t *testing.T) {
	m := meter{t: t, file: bundleOf(t, everything)}
	usual := 0.0
	for kind := range conversations {
		worst := sample{}
		for name, unit := range honest {
			usual = max(usual, m.perByte(ofText(kind, name, unit, all[0]), small))
		}
		for name, unit := range hostile {
			worst = m.worse(worst, ofText(kind, name, unit, all[0]), usual)
		}
		m.grows(worst)
		m.grows(ofText(kind, "code", honest["code"], all[0]))
	}
	for _, p := range all {
		worst := ofText("an agent", "code", honest["code"], p)
		m.grows(worst)
		for i := range shapes {
			if s := &shapes[i]; s.format.Name() == p.Name() {
				worst = m.worse(worst, sample{p.Name() + ", " + s.name, p, s.body}, usual)
			}
		}
		m.grows(worst)
	}
}

func bundleOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// meter measures how long a gateway works on bodies before it asks a detector.
type meter struct {
	t    *testing.T
	file string
	// known are results for small bodies, in nanoseconds for each byte.
	known map[string]float64
}

// worse checks a hostile sample, and returns the worse one of two.
func (m *meter) worse(a, b sample, usual float64) sample {
	got := m.perByte(b, small)
	for range 2 { // a collection of garbage may have come in between
		if got > mostHostile*usual {
			delete(m.known, b.name)
			got = min(got, m.perByte(b, small))
		}
	}
	if got > mostHostile*usual {
		m.t.Errorf("%s: %.0f ns for each byte, an honest body at most %.0f", b.name, got, usual)
	}
	if a.body != nil && m.perByte(a, small) > got {
		return a
	}
	return b
}

// grows checks that a large body takes as long for each byte as a small one.
func (m *meter) grows(s sample) {
	before, got := m.perByte(s, small), m.perByte(s, large)
	for range 2 {
		if got > mostLarge*before {
			got = min(got, m.perByte(s, large))
		}
	}
	m.t.Logf("%s: %.0f ns for each byte of a small body, %.0f of a large one", s.name, before, got)
	if got > mostLarge*before {
		m.t.Errorf("%s: %.0f ns for each byte of a small body, %.0f of a large one", s.name, before, got)
	}
}

// perByte returns the nanoseconds that a new gateway works on each byte of a sample. It
// counts the processor's time of this thread, so that other work on the machine does not
// matter.
func (m *meter) perByte(s sample, size int) float64 {
	m.t.Helper()
	if known, ok := m.known[s.name]; ok && size == small {
		return known
	}
	cfg := gateway.DefaultConfig()
	cfg.Policies, cfg.MaxInspectBytes = m.file, math.MaxInt64-1
	e, err := gateway.NewReplayer(cfg, time.Now)
	if err != nil {
		m.t.Fatal(err)
	}
	body := s.body(size)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started := worked(m.t)
	out, err := e.Evaluate(httptest.NewRequest(http.MethodPost, pathOf[s.format.Name()], bytes.NewReader(body)), gateway.Origin{})
	if err != nil || out.Check == nil {
		m.t.Fatalf("%s: no check, %v", s.name, err)
	}
	_, _, _ = s.format.Repair(body)
	_, _ = s.format.Hint(body, "x", provider.Head)
	got := float64(worked(m.t)-started) / float64(len(body))
	if size == small {
		if m.known == nil {
			m.known = map[string]float64{}
		}
		m.known[s.name] = got
	}
	return got
}

var pathOf = map[string]string{
	"openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses", "anthropic-messages": "/v1/messages", "gemini": "/v1beta/models/m:generateContent",
	"ollama": "/api/chat", "bedrock-converse": "/bedrock/model/m/converse", "bedrock-anthropic": "/bedrock/model/anthropic.m/invoke",
}

// worked is the processor's time that this thread has had, to the nanosecond:
// what getrusage(2) says grows by whole ticks.
func worked(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}
