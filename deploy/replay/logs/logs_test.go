package logs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/replay/logs"
	recording "github.com/unloop/unloop/schemas/record"
)

// read returns all requests, with bodies of their own, and all errors.
func read(t *testing.T, input string, limit int) (requests []logs.Request, faults []error) {
	t.Helper()
	return collect(logs.OpenLimited(strings.NewReader(input), limit))
}

// collect returns all requests of a sequence, with whole bodies of their own, and all errors.
func collect(all iter.Seq2[logs.Request, error]) (requests []logs.Request, faults []error) {
	said := map[*logs.Conversation][][]byte{}
	for r, err := range all {
		if err != nil {
			faults = append(faults, err)
			continue
		}
		r.Body = append([]byte(nil), r.Body...)
		if c := r.Conversation; c != nil {
			said[c] = append(said[c], r.Added...)
			r.Body, _ = c.Body(r.Model, said[c], true)
		}
		r.Conversation, r.Added = nil, nil
		requests = append(requests, r)
	}
	return requests, faults
}

func one(t *testing.T, input string) logs.Request {
	t.Helper()
	requests, faults := read(t, input, logs.Limit)
	if len(requests) != 1 || len(faults) > 0 {
		t.Fatalf("got %d requests and %v, want one request", len(requests), faults)
	}
	return requests[0]
}

// sameJSON compares a body with what it should say.
func sameJSON(t *testing.T, got []byte, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("body differs (-want +got):\n%s", diff)
	}
}

const session = `{"id": "s1", "messages": [
  {"role": "system", "content": "You help."},
  {"role": "user", "content": "List the files."},
  {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
  {"role": "tool", "tool_call_id": "c1", "content": "a.go"},
  {"role": "assistant", "content": "a.go"}
]}`

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestASessionIsOneRequestForEachTurnOfTheModel(t *testing.T) {
	t.Parallel()
	flat := compact(t, session)
	for name, input := range map[string]string{
		"over many lines": session, "one line": flat, "without an end of line": strings.TrimSpace(flat), "windows": "\xef\xbb\xbf" + flat + "\r\n",
		"array of sessions": "[" + flat + "]", "array over many lines": "[\n" + session + "\n]",
	} {
		requests, faults := read(t, input, logs.Limit)
		if len(requests) != 2 || len(faults) != 0 {
			t.Errorf("%s: %d requests, %v", name, len(requests), faults)
			continue
		}
		sameJSON(t, requests[0].Body, `{"messages":[{"role":"system","content":"You help."},{"role":"user","content":"List the files."}]}`)
		r := requests[1]
		if r.Source != logs.Session || r.Path != "/v1/chat/completions" || r.Method != http.MethodPost || r.Session != "s1" {
			t.Errorf("%s: %+v", name, r)
		}
		if !strings.HasSuffix(string(r.Body), `"a.go"}]}`) && !strings.Contains(string(r.Body), `"tool_call_id"`) {
			t.Errorf("%s: %s", name, r.Body)
		}
	}
}

func TestMessagesAloneAreASession(t *testing.T) {
	t.Parallel()
	flat := `[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d"}]`
	for _, input := range []string{flat, strings.ReplaceAll(flat, ",{", ",\n {"), flat + "\n" + flat} {
		requests, faults := read(t, input, logs.Limit)
		if len(requests) != 2*(1+strings.Count(input, "]\n[")) || len(faults) != 0 {
			t.Fatalf("%d requests, %v", len(requests), faults)
		}
		sameJSON(t, requests[1].Body, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`)
		if requests[0].Session != "line-1" {
			t.Errorf("session is %q", requests[0].Session)
		}
	}
}

func TestTheBodyOfARequestIsARequest(t *testing.T) {
	t.Parallel()
	body := `{"model":"m","tools":[],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`
	if r := one(t, body); string(r.Body) != body || r.Model != "m" {
		t.Errorf("got %+v", r)
	}
	if r := one(t, `{"messages":[{"role":"user","content":"a"}]}`); r.Session != "line-1" {
		t.Errorf("got %+v", r)
	}
	requests, _ := read(t, `{"model":"m","tools":[{"type":"function"}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, logs.Limit)
	sameJSON(t, requests[0].Body, `{"model":"m","tools":[{"type":"function"}],"messages":[{"role":"user","content":"a"}]}`)
}

func TestOurRecordings(t *testing.T) {
	t.Parallel()
	record := recording.Record{
		Version: 1, Time: time.Date(2026, 5, 22, 14, 30, 0, 5e6, time.UTC), Tenant: "t", Project: "p", Caller: "ab12", Session: "s", User: "u",
		Method: "POST", Path: "/v1/messages?beta=true", Header: map[string]string{"anthropic-version": "2023-06-01"}, Model: "m",
		Body: json.RawMessage(`{"model":"m","messages":[]}`), Status: 200, InputTokens: 12, OutputTokens: 3, USD: 0.25,
	}
	line, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	want := logs.Request{
		Source: logs.Recording, Line: 1, Time: record.Time, Method: "POST", Path: record.Path, Header: record.Header,
		Tenant: "t", Project: "p", Caller: "ab12", Session: "s", User: "u", Model: "m", Body: record.Body,
		Outcome: logs.Outcome{Status: 200, InputTokens: 12, OutputTokens: 3, USD: 0.25},
	}
	if diff := cmp.Diff(want, one(t, string(line))); diff != "" {
		t.Error(diff)
	}
	if r := one(t, `{"unloop":1,"path":"/x","body_base64":"/wA="}`); string(r.Body) != "\xff\x00" {
		t.Errorf("body is %q", r.Body)
	}
	_, faults := read(t, `{"unloop":3,"path":"/x"}`, logs.Limit)
	if len(faults) != 1 || !errors.Is(faults[0], logs.ErrVersion) {
		t.Errorf("errors are %v", faults)
	}
	_, faults = read(t, `{"unloop":1,"path":7}`, logs.Limit)
	if len(faults) != 1 {
		t.Errorf("errors are %v", faults)
	}
}

func TestAnswersAreEntriesOfTheirOwn(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)
	asked, err := json.Marshal(recording.Record{
		Version: recording.Version, ID: "a1", Time: at, Tenant: "t", TenantVerified: true, DerivedSession: "d", Operator: recording.Exempted,
		Method: "POST", Path: "/x", Body: json.RawMessage(`{}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	answered, err := json.Marshal(recording.Answer{
		Version: recording.Version, To: "a1", Time: at, Status: 200, InputTokens: 9, CachedTokens: 4, OutputTokens: 2, USD: 0.5,
	})
	if err != nil {
		t.Fatal(err)
	}
	got, faults := read(t, string(asked)+"\n"+string(answered), logs.Limit)
	want := []logs.Request{
		{
			Source: logs.Recording, Line: 1, ID: "a1", Time: at, Method: "POST", Path: "/x", Tenant: "t", TenantVerified: true,
			DerivedSession: "d", Operator: "exempt", Body: []byte("{}"),
		},
		{Source: logs.Recording, Line: 2, Time: at, Answer: &logs.Answer{
			To: "a1", Outcome: logs.Outcome{Status: 200, InputTokens: 9, CachedTokens: 4, OutputTokens: 2, USD: 0.5},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(faults) > 0 {
		t.Errorf("faults %v, requests (-want +got):\n%s", faults, diff)
	}
}

func TestErrorsNameTheirLineAndTheNextLineIsRead(t *testing.T) {
	t.Parallel()
	good := `{"unloop":1,"method":"POST","path":"/x","body":{}}`
	input := strings.Join([]string{good, "", `{"unloop":1,`, good, "nonsense", `{"a":1,"b":2}`, "7", good + good, strings.Repeat(" ", 2000) + "{}", good}, "\n")
	requests, faults := read(t, input, 1000)
	if len(requests) != 3 || requests[2].Line != 10 {
		t.Errorf("%d requests", len(requests))
	}
	want := []struct {
		line int
		err  error
	}{{3, logs.ErrSyntax}, {5, logs.ErrSyntax}, {6, logs.ErrUnknown}, {7, logs.ErrUnknown}, {8, logs.ErrSyntax}, {9, logs.ErrTooLong}}
	if len(faults) != len(want) {
		t.Fatalf("errors are %v", faults)
	}
	for i, w := range want {
		var e *logs.Error
		if !errors.As(faults[i], &e) || e.Line != w.line || !errors.Is(e, w.err) {
			t.Errorf("error %d is %v, want line %d: %v", i, faults[i], w.line, w.err)
		}
	}
	if !strings.Contains(faults[2].Error(), "line 6: ") || !strings.Contains(faults[2].Error(), "a, b") {
		t.Errorf("error says %q", faults[2])
	}
}

func TestErrorsInLargerValuesNameTheirLine(t *testing.T) {
	t.Parallel()
	input := "[\n" + compact(t, session) + ",\n\n{\"x\": 1},\n" + session + ",\n{\"messages\": [}\n]"
	requests, faults := read(t, input, logs.Limit)
	if len(requests) != 4 || requests[0].Line != 2 || requests[3].Line != 5 {
		t.Errorf("requests are %+v", requests)
	}
	var first, second *logs.Error
	if len(faults) != 2 || !errors.As(faults[0], &first) || !errors.As(faults[1], &second) || first.Line != 4 || second.Line != 12 ||
		!errors.Is(first, logs.ErrUnknown) || !errors.Is(second, logs.ErrSyntax) {
		t.Errorf("errors are %v", faults)
	}
	_, faults = read(t, session[:len(session)-3], logs.Limit)
	if len(faults) != 1 || !errors.Is(faults[0], logs.ErrSyntax) || !strings.Contains(faults[0].Error(), "ends in the middle") {
		t.Errorf("errors are %v", faults)
	}
	_, faults = read(t, session, 100)
	if len(faults) != 1 || !errors.Is(faults[0], logs.ErrTooLong) {
		t.Errorf("errors are %v", faults)
	}
}

func TestTheCallerMayStop(t *testing.T) {
	t.Parallel()
	for _, input := range []string{strings.Repeat(compact(t, session)+"\n", 3), "[" + session + "," + session + "]", session, export} {
		n := 0
		for _, err := range logs.Open(strings.NewReader(input)) {
			if n++; err != nil || n == 1 {
				break
			}
		}
		if n != 1 {
			t.Errorf("%d entries after the first", n-1)
		}
	}
}

func TestAnEmptyInputHasNoRequests(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"", "\n\n", "  ", "[]", "{\n}", "\xef\xbb\xbf"} {
		requests, faults := read(t, input, logs.Limit)
		if len(requests) != 0 || len(faults) > 1 || len(faults) == 1 && !errors.Is(faults[0], logs.ErrUnknown) {
			t.Errorf("%q: %v, %v", input, requests, faults)
		}
	}
}

func TestErrorsOfReadingEndTheSequence(t *testing.T) {
	t.Parallel()
	lost := errors.New("the disk is gone")
	for _, start := range []string{`{"unloop":1,"path":"/x","body":{}}` + "\n", "{\n", ""} {
		var last error
		n := 0
		for _, err := range logs.Open(io.MultiReader(strings.NewReader(start), iotest.ErrReader(lost))) {
			last = err
			n++
		}
		if !errors.Is(last, lost) || n > 2 {
			t.Errorf("after %q: %d entries, the last %v", start, n, last)
		}
	}
}

func TestReadingInSmallPiecesChangesNothing(t *testing.T) {
	t.Parallel()
	for _, input := range []string{session, compact(t, session) + "\n" + litellm, export, "[\n" + session + "]"} {
		want, _ := read(t, input, logs.Limit)
		got, faults := collect(logs.Open(iotest.OneByteReader(strings.NewReader(input))))
		if diff := cmp.Diff(want, got); diff != "" || len(faults) > 0 {
			t.Errorf("%v, requests (-want +got):\n%s", faults, diff)
		}
	}
}

func TestRealSessions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "..", "shared", "trajectories")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Skipf("no recorded sessions in %s", dir)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		turns := strings.Count(string(data), `"role": "assistant"`)
		requests, faults := read(t, string(data), logs.Limit)
		if len(requests) != turns || len(faults) > 0 {
			t.Errorf("%s: %d requests for %d turns, %v", file, len(requests), turns, faults)
		}
		for _, r := range requests {
			if !json.Valid(r.Body) {
				t.Errorf("%s: a body is no JSON", file)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, seed := range []string{session, litellm, export, consoleSpan, `{"unloop":1,"path":"/"}`, "[[[{\"role\":\"user\"}]]]", "{\n\"messages\":[1]}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		n := 0
		for r, err := range logs.OpenLimited(strings.NewReader(input), 10_000) {
			var e *logs.Error
			if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Line > strings.Count(input, "\n")+1) {
				t.Fatalf("error without its line: %v", err)
			}
			if err == nil && (r.Source == "" || r.Line < 1) {
				t.Fatalf("request %+v", r)
			}
			if n++; n > len(input)+1 {
				t.Fatal("it does not end")
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	var s strings.Builder
	s.WriteString(`{"messages":[{"role":"user","content":"go"}`)
	for i := range 1000 {
		fmt.Fprintf(&s, `,{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"read","arguments":"{\"n\":%d}"}}]},{"role":"tool","tool_call_id":"c%d","content":%q}`, i, i, i, strings.Repeat("some text of a file. ", 50))
	}
	s.WriteString("]}\n")
	body := s.String()
	for name, input := range map[string]string{
		"session-2000-messages": body,
		"recording":             strings.Repeat(`{"unloop":1,"time":"2026-05-22T14:30:00Z","method":"POST","path":"/v1/chat/completions","body":`+strings.TrimSpace(body)+"}\n", 20),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(input)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range logs.Open(strings.NewReader(input)) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
