package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/text/offsets"
	"github.com/unloop/unloop/gateway/internal/wire/prefixcache"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/size"
)

// everyMessage are limits with a checkpoint behind each message.
var everyMessage = prefixcache.Limits{MinSize: 16, KeySize: 16, MinStep: 1, StepDivisor: 1 << 30, PerKey: 1024, Total: 64 << 20}

// lists are the members with the messages.
var listOf = map[string]string{
	"openai-chat": "messages", "openai-responses": "input", "anthropic-messages": "messages", "gemini": "contents", "ollama": "messages",
	"bedrock-converse": "messages", "bedrock-anthropic": "messages",
}

// listAt returns where the list of messages of a body begins.
func listAt(p provider.Provider, body []byte) int {
	return bytes.Index(body, fmt.Appendf(nil, "%q:[", listOf[p.Name()])) + len(listOf[p.Name()]) + len(`"":`)
}

// knownTo returns the offset of the last checkpoint that fits a body.
func knownTo(p provider.Provider, scope prefixcache.Scope, body []byte) int {
	read := scope.Open(body)
	if read == nil {
		return 0
	}
	return read.Resume(listAt(p, body), func(*offsets.Coder) {})
}

// reader reads bodies with a prefix cache and without it, and compares the results.
type reader struct {
	provider.Provider
	opts  provider.Options
	scope prefixcache.Scope
	// deep says that also what a state leaves out is compared, which takes long.
	deep bool
}

func newReader(p provider.Provider, b prefixcache.Limits) *reader {
	return &reader{p, provider.Options{Tail: 3, Items: 6, Exchanges: 2, Path: pathFor(p.Name(), "m"), Cache: provider.NewCache()}, prefixcache.New(b).Scope(p.Name()), true}
}

// deep compares all of a transcript but buffers, and what is computed when it is needed.
var deep = []cmp.Option{
	cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal)),
	cmp.FilterPath(func(path cmp.Path) bool {
		at, ok := path.Last().(cmp.StructField)
		if !ok {
			return false
		}
		in := path.Index(-2).Type().String()
		switch at.Name() {
		case "opts", "digester", "spare", "room":
			return true
		case "digests":
			return in == "transcript.kept"
		case "sum":
			return in == "rounds.slot" || in == "message.Part"
		case "sums":
			return in == "rounds.answer" || in == "rounds.exchange"
		case "parts", "answers":
			return in == "rounds.history"
		case "texts", "read", "rounds":
			return in == "rounds.chat"
		}
		return false
	}, cmp.Ignore()),
}

type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check reads a body, and remembers it.
func (r *reader) check(t failing, what string, body []byte) {
	t.Helper()
	opts := r.opts
	whole, wholeErr := r.Parse(body, opts)
	opts.Prefixes = r.scope
	on, err := r.Parse(body, opts)
	if fmt.Sprint(wholeErr) != fmt.Sprint(err) || (whole == nil) != (on == nil) {
		t.Fatalf("%s, %s: %v, %v; read whole: %v, %v", r.Name(), what, on, err, whole, wholeErr)
	}
	if whole == nil {
		return
	}
	wholeState, _ := offsets.Write(body, whole.Transcript.Code)
	if state, _ := offsets.Write(body, on.Transcript.Code); !bytes.Equal(wholeState, state) || r.deep {
		if diff := cmp.Diff(whole.Transcript, on.Transcript, deep...); diff != "" || !r.deep {
			t.Fatalf("%s, %s (-whole +on):\n%s", r.Name(), what, diff)
		}
	}
	if said, want := more(on), more(whole); !reflect.DeepEqual(said, want) {
		t.Fatalf("%s, %s (-whole +on):\n%s", r.Name(), what, cmp.Diff(want, said, deep...))
	}
	if on.Size != (size.Size{}) && on.Size != size.Of(body) {
		t.Fatalf("%s, %s: size %v, want %v", r.Name(), what, on.Size, size.Of(body))
	}
	on.Transcript, on.Size, whole.Transcript = nil, size.Size{}, nil
	if diff := cmp.Diff(whole, on); diff != "" {
		t.Fatalf("%s, %s (-whole +on):\n%s", r.Name(), what, diff)
	}
}

// more is what a transcript says.
func more(p *provider.Prompt) []any {
	t := p.Transcript
	newest, earlier, further := t.Digests()
	all, before := t.Exchanges()
	shown, human := t.Show(9)
	out := append(digests(p), newest, earlier, further, all, before, shown, human, t.Complaints(), t.Turned(), t.Closed(), t.Strays(), t.HasTools(), t.Begins())
	for i := range t.Earlier() {
		said, answered := t.EarlierExchange(i, 1<<10)
		out = append(out, said, answered)
	}
	return out
}

// recordedSessions returns all recorded sessions beside the repository, and some that are not.
func recordedSessions(t *testing.T) map[string]Conversation {
	t.Helper()
	out := map[string]Conversation{"own": Fixing(), "code": session(20 << 10), "in text": inText()}
	shared := filepath.Join("..", "..", "..", "..", "..", "..", "shared")
	files, err := filepath.Glob(filepath.Join(shared, "trajectories", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		out[file] = recorded(t, file)
	}
	if files, err = filepath.Glob(filepath.Join(shared, "sessions*", "*.jsonl")); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, len(data)+1)
		for n := 1; lines.Scan(); n++ {
			name := fmt.Sprintf("%s:%d", file, n)
			out[name] = conversationOf(t, name, lines.Bytes())
		}
	}
	return out
}

// inText is a session of an agent that acts in text.
func inText() Conversation {
	c := Conversation{Model: "m", System: "Write each command in a fence:\n```bash\nls\n```", Turns: []Turn{{Human: "Fix it."}}}
	for i := range 12 {
		c.Turns = append(c.Turns, Turn{Said: fmt.Sprintf("Next.\n```bash\nrun %d\n```", i%5)}, Turn{Human: fmt.Sprintf("exit status %d\nline one\nline two", i%3)})
	}
	return c
}

// mostTurns is how many requests of a session are sent at most.
const mostTurns = 5

func TestWhatWasReadBeforeIsReadTheSame(t *testing.T) {
	t.Parallel()
	sessions := recordedSessions(t)
	every := min(len(all), 1+len(sessions)/60) // of many sessions, each in one format
	for number, p := range all {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			for i, name := range slices.Sorted(maps.Keys(sessions)) {
				if (i+number)%every == 0 {
					turnByTurn(t, p, name, sessions[name])
					withJumps(t, p, name, sessions[name])
				}
			}
		})
	}
}

// turnByTurn reads the requests of a session, each after the one before.
func turnByTurn(t *testing.T, p provider.Provider, name string, c Conversation) {
	t.Helper()
	r, before := newReader(p, everyMessage), 0
	r.deep = false
	for n := 1; n <= len(c.Turns); n += 1 + len(c.Turns)/mostTurns {
		body := Formats[p.Name()](Conversation{c.Model, c.System, c.Tools, c.Turns[:n]})
		if known := knownTo(p, r.scope, body); before > everyMessage.KeySize && known < before {
			t.Fatalf("%s, %d of %d turns: %d bytes are known, want %d", name, n, len(c.Turns), known, before)
		}
		r.check(t, name, body)
		before = max(before, knownTo(p, r.scope, body))
	}
}

// withJumps reads a session from any of its requests on, and with a byte that differs.
func withJumps(t *testing.T, p provider.Provider, name string, c Conversation) {
	t.Helper()
	draw, r := rand.New(rand.NewPCG(1, uint64(len(c.Turns)))), newReader(p, everyMessage)
	r.deep = false
	r.check(t, name, Formats[p.Name()](Conversation{c.Model, c.System, c.Tools, c.Turns[:draw.IntN(len(c.Turns)+1)]}))
	whole := Formats[p.Name()](c)
	r.deep = len(whole) < 100_000
	r.check(t, name, whole)
	r.deep = false
	last := listLast(t, p, whole)
	r.check(t, name, last)
	r.check(t, name, last)
	third := len(whole) / 3
	for i := range 3 {
		at := i*third + draw.IntN(third)
		edited := slices.Clone(whole)
		edited[at] ^= 1
		if known := knownTo(p, r.scope, edited); known > at {
			t.Fatalf("%s: byte %d differs, and %d are known", name, at, known)
		}
		r.check(t, name, edited)
	}
}

// listLast returns a body with its members in another order, the list of messages last.
func listLast(t failing, p provider.Provider, body []byte) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		t.Fatalf("%v", err)
	}
	out := []byte("{ ")
	for name, value := range members {
		if name != listOf[p.Name()] {
			out = fmt.Appendf(out, "%q: %s,\n", name, value)
		}
	}
	return fmt.Appendf(out, "%q:%s }", listOf[p.Name()], members[listOf[p.Name()]])
}

func TestAHistoryThatWasChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, p := range all {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				r, c := newReader(p, everyMessage), inText()
				r.deep = false
				if rapid.Bool().Draw(t, "with calls") {
					c = session(rapid.IntRange(2000, 12_000).Draw(t, "size"))
				}
				body := Formats[p.Name()](c)
				r.check(t, "before", body)
				turns := len(c.Turns)
				switch at := rapid.IntRange(0, turns-1).Draw(t, "turn"); rapid.SampledFrom([]string{"removed", "repeated", "other", "system", "byte", "shorter"}).Draw(t, "change") {
				case "removed":
					c.Turns = slices.Delete(slices.Clone(c.Turns), at, at+1)
				case "repeated":
					c.Turns = slices.Insert(slices.Clone(c.Turns), at, c.Turns[at])
				case "other":
					c.Turns = slices.Clone(c.Turns)
					c.Turns[at] = Turn{Human: "Something else."}
				case "system":
					c.System += "!"
				case "shorter":
					c.Turns = c.Turns[:at]
				case "byte":
					edited := slices.Clone(body)
					i := rapid.IntRange(0, len(body)-1).Draw(t, "byte")
					edited[i] = rapid.Byte().Draw(t, "to")
					if known := knownTo(p, r.scope, edited); edited[i] != body[i] && known > i {
						t.Fatalf("byte %d differs, and %d are known", i, known)
					}
					r.check(t, "a byte", edited)
					return
				}
				changed := Formats[p.Name()](c)
				same := 0
				for same < min(len(body), len(changed)) && body[same] == changed[same] {
					same++
				}
				if known := knownTo(p, r.scope, changed); known > same {
					t.Fatalf("%d bytes are the same, and %d are known", same, known)
				}
				r.check(t, "changed", changed)
				r.check(t, "as it was", body)
			})
		})
	}
}

func TestRandomHistoriesAreReadOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		request := randomObject(lists, 3).Draw(t, "request")
		list := rapid.SliceOfN(randomObject(names, 4), 1, 10).Draw(t, "messages")
		readers := make([]*reader, len(all))
		for i, p := range all {
			readers[i] = newReader(p, everyMessage)
			readers[i].deep = false
		}
		for n := 1; n <= len(list); n += rapid.IntRange(1, 3).Draw(t, "more") {
			for _, r := range readers {
				request[listOf[r.Name()]] = list[:n]
			}
			body, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range readers {
				r.check(t, "random", body)
			}
		}
	})
}

func TestNobodyReadsOnWhereAnotherCallerEnded(t *testing.T) {
	t.Parallel()
	for _, p := range all {
		cache := prefixcache.New(everyMessage)
		body := Formats[p.Name()](session(4000))
		opts := provider.Options{Tail: 3, Prefixes: cache.Scope("a", "b")}
		if _, err := p.Parse(body, opts); err != nil {
			t.Fatal(err)
		}
		if knownTo(p, opts.Prefixes, body) == 0 {
			t.Errorf("%s: the caller's own body is not known", p.Name())
		}
		for _, other := range [][]string{{"ab", ""}, {"a"}, {"", "ab"}, {"b", "a"}} {
			if known := knownTo(p, cache.Scope(other...), body); known > 0 {
				t.Errorf("%s: %d bytes are known to %q", p.Name(), known, other)
			}
		}
	}
}

func TestAReadingThatWasStoppedIsNotRemembered(t *testing.T) {
	t.Parallel()
	for _, p := range all {
		r, stop := newReader(p, everyMessage), false
		body := Formats[p.Name()](session(4000))
		opts := r.opts
		opts.Prefixes, opts.Stop = r.scope, func() bool { return stop }
		stop = true
		if _, err := p.Parse(body, opts); err != nil {
			t.Fatal(err)
		}
		if known := knownTo(p, r.scope, body); known > 0 {
			t.Errorf("%s: %d bytes are known", p.Name(), known)
		}
		r.check(t, "again", body)
	}
}

func TestWhatIsKnownOfASessionIsSmall(t *testing.T) {
	t.Parallel()
	for _, p := range all {
		r := newReader(p, prefixcache.DefaultLimits())
		r.opts.Items, r.opts.Exchanges = 48, 5
		body := Formats[p.Name()](session(300 << 10))
		prompt, err := p.Parse(body, r.opts)
		if err != nil {
			t.Fatal(err)
		}
		state, ok := offsets.Write(body, prompt.Transcript.Code)
		if !ok || len(state) > 20<<10 {
			t.Errorf("%s: %d bytes, %v", p.Name(), len(state), ok)
		}
		if bytes.Contains(state, []byte("Errorf")) {
			t.Errorf("%s: the state has text of the body", p.Name())
		}
	}
}
