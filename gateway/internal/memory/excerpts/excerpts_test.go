package excerpts_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/unloop/unloop/gateway/internal/memory/excerpts"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	schema "github.com/unloop/unloop/schemas/excerpts"
)

// conversation has a prompt, and an answer of a tool to a call.
func conversation(human, arguments, result string) *transcript.Transcript {
	quoted := func(s string) []byte { b, _ := json.Marshal(s); return b } //nolint:errchkjson // of strings
	t := transcript.New(transcript.Options{Tail: excerpts.Messages})
	t.Add(message.Part{Kind: message.Text, Value: quoted(human)})
	t.End(message.User)
	t.Add(message.Part{Kind: message.Call, ID: []byte("c"), Name: []byte("read"), Value: []byte(arguments)})
	t.End(message.Assistant)
	at := t.Len()
	t.Add(message.Part{Kind: message.Text, Value: quoted(result)})
	t.Wrap(at, message.Part{ID: []byte("c")})
	t.End(message.Tool)
	return t
}

func ask(b *excerpts.Cache, id string) (int, schema.Loop) {
	mux := http.NewServeMux()
	mux.Handle("GET "+schema.Path, b)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, strings.Replace(schema.Path, "{id}", id, 1), nil))
	var l schema.Loop
	_ = json.Unmarshal(w.Body.Bytes(), &l)
	return w.Code, l
}

func TestTextsAreMaskedAndCut(t *testing.T) {
	t.Parallel()
	b, now := excerpts.New(), time.Now()
	b.Keep("l", conversation("My token=abcdefgh12345678 is here", `{"password":"hunter2hunter2"}`, strings.Repeat("ä", 5000)), now)
	status, l := ask(b, "l")
	if status != http.StatusOK || len(l.Rounds) != 1 {
		t.Fatalf("status %d, %+v", status, l)
	}
	r := l.Rounds[0]
	if strings.Contains(l.Prompt, "abcdefgh") || strings.Contains(r.Arguments, "hunter2") || r.Tool != "read" {
		t.Errorf("secrets are left: %q, %+v", l.Prompt, r)
	}
	if len(r.Result) > 2100 || !strings.HasSuffix(r.Result, "ä…") || !utf8.ValidString(r.Result) {
		t.Errorf("%d bytes that end in %q", len(r.Result), r.Result[len(r.Result)-8:])
	}
}

// A secret at the end of what is read is not shown in part.
func TestASecretThatIsCutIsNotShown(t *testing.T) {
	t.Parallel()
	const secret = "sk-abcdefghijklmnop1234567890"
	for _, before := range []int{2<<10 - 10, 4<<10 - 10} {
		b := excerpts.New()
		b.Keep("l", conversation(strings.Repeat("x ", before/2)+secret, "{}", ""), time.Now())
		if _, l := ask(b, "l"); strings.Contains(l.Prompt, "sk-a") {
			t.Errorf("after %d bytes: %q", before, l.Prompt[len(l.Prompt)-40:])
		}
	}
}

func TestFewLoopsAreKept(t *testing.T) {
	t.Parallel()
	b, now := excerpts.New(), time.Now()
	for i := range 1000 {
		b.Keep(strings.Repeat("l", i+1), conversation("p", "{}", "r"), now)
	}
	known := 0
	for i := range 1000 {
		if _, l := ask(b, strings.Repeat("l", i+1)); !l.At.IsZero() {
			known++
		}
	}
	if known == 0 || known > 150 { // the cache evicts a little later
		t.Errorf("%d loops are kept", known)
	}
	const last = "another"
	if !b.Wants(last, now) || b.Wants("", now) {
		t.Error("a new loop is not wanted, or one without an id is")
	}
	for range 16 {
		if !b.Wants(last, now) {
			t.Error("one of the first requests is not wanted")
		}
		b.Keep(last, conversation("p", "{}", "r"), now)
	}
	if b.Wants(last, now.Add(time.Millisecond)) || !b.Wants(last, now.Add(2*time.Second)) {
		t.Error("a loop is wanted at once, or never again")
	}
}
