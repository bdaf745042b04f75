package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// FuzzProviders feeds any body to every format: whatever one accepts is JSON, stays
// as it was, and is accepted the same way again; so is what hints and repairs make
// of it.
func FuzzProviders(f *testing.F) {
	for _, write := range Formats {
		f.Add(write(Fixing()))
	}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]},{"role":"assistant","function_call":{"name":"f","arguments":"{"}},{"role":"function","name":"f","content":null}]}`,
		`{"conversation":{"id":"c"},"prompt":{"id":"p"},"input":[{"type":"mcp_call","id":"m","name":"n","arguments":"1","output":"o","error":"e"},{"type":"local_shell_call","call_id":"l","action":{"type":"exec"}},{"type":"local_shell_call_output","id":"l","output":"x"}]}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: a"}],"metadata":{"user_id":"{\"session_id\":\"s\"}"},"messages":[{"content":[{"content":[{"type":"image"}],"tool_use_id":"a","type":"tool_result"},"x"],"role":"user"}]}`,
		`{"system_instruction":"s","contents":{"parts":{"functionResponse":{"response":{"error":"e"},"name":"f","parts":[{}]},"thoughtSignature":"t"}},"cachedContent":"c"}`,
		`{"messages":[{"role":"assistant","content":[{"type":"tool_result","tool_call_id":"a"},{"type":"text","text":" "}],"tool_calls":[{"id":"a"},{"id":"a"}]},{"role":"tool"}],"input":[1,{"type":"function_call"}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sent := bytes.Clone(body)
		for _, p := range all {
			fuzzOne(t, p, body)
		}
		if !bytes.Equal(sent, body) {
			t.Fatal("the body was changed")
		}
	})
}

// failer is a test or a rapid check.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func fuzzOne(t failer, p provider.Provider, body []byte) {
	t.Helper()
	o := provider.Options{Tail: 3, Items: 4, Path: "/v1beta/models/m:generateContent"}
	prompt, err := p.Parse(body, o)
	if err != nil {
		return
	}
	if !json.Valid(body) {
		t.Fatalf("%s accepts what is no JSON", p.Name())
	}
	mended, report, err := p.Repair(body)
	if err == nil && report.Changed() {
		if _, again, err := p.Repair(mended); err != nil || again.Changed() {
			t.Fatalf("%s: a second repair: %v, %v\n%s", p.Name(), again, err, mended)
		}
	}
	if prompt == nil {
		return
	}
	if items, _ := prompt.Transcript.History(provider.Rules{}); len(items) > o.Items || len(prompt.Tail) > o.Tail {
		t.Fatalf("%s keeps %d items and %d messages", p.Name(), len(items), len(prompt.Tail))
	}
	const media = len("\nattachment_") + 16
	if said, answered := prompt.Transcript.Exchange(10); len(said) > 10+media || len(answered) > 10+media {
		t.Fatalf("%s: an exchange of %d and %d bytes", p.Name(), len(said), len(answered))
	}
	for _, position := range []string{provider.Head, provider.Result} {
		hinted, err := p.Hint(body, Hint, position)
		if errors.Is(err, provider.ErrNoPlace) {
			continue
		}
		if err != nil || jsonwalk.Text(hinted, (*jsonwalk.Walker).Skip) != nil {
			t.Fatalf("%s, %s: %v\n%s", p.Name(), position, err, hinted)
		}
		if again, err := p.Parse(hinted, o); err != nil || again == nil {
			t.Fatalf("%s can't read the body with a hint: %v\n%s", p.Name(), err, hinted)
		}
	}
}

func TestBrokenStringsAreErrors(t *testing.T) {
	t.Parallel()
	c := Fixing()
	c.System, c.Turns[0].Human, c.Turns[1].Said = "One\nline", "\"Fix\"\n\\it\t", "\\\n\\"
	for _, p := range all {
		for _, body := range [][]byte{Formats[p.Name()](c), []byte(`{"input":"\"a\n\\b","contents":"\"a\n\\b","prompt":"\"a\n\\b"}`)} {
			for i := range body {
				broken := slices.Clone(body)
				broken[i] = 0
				if prompt, err := p.Parse(broken, provider.Options{Tail: 3, Items: 9, Exchanges: 3}); err == nil {
					t.Errorf("%s: %q is read: %v", p.Name(), broken, prompt)
				}
			}
		}
	}
}
