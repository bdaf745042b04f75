package gemini_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/gemini"
	"github.com/unloop/unloop/schemas/client"
)

func parse(t *testing.T, body string) *provider.Prompt {
	t.Helper()
	p, err := gemini.Generate{}.Parse([]byte(body), provider.Options{Tail: 3, Items: 20, Path: "/v1beta/models/gemini-x:streamGenerateContent"})
	if err != nil || p == nil {
		t.Fatalf("%s: %v, %v", body, p, err)
	}
	return p
}

func TestKeysAreReadWhereGeminiHasThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header http.Header
		query  string
		want   string
	}{
		{http.Header{"X-Goog-Api-Key": {"a"}}, "?key=b", "a"},
		{http.Header{"Authorization": {"Bearer c"}}, "?alt=sse&key=b", "b"},
		{http.Header{"Authorization": {"Bearer c"}}, "", "c"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1beta/models/x:generateContent"+c.query, nil)
		r.Header = c.header
		if got := (gemini.Generate{}).Key(r); got != c.want {
			t.Errorf("%v%s: %q, want %q", c.header, c.query, got, c.want)
		}
	}
}

func TestModelAndStreamAreInThePath(t *testing.T) {
	t.Parallel()
	if p := parse(t, `{"contents":[{"parts":[{"text":"hi"}]}]}`); p.Model != "gemini-x" || !p.Stream {
		t.Errorf("%+v", p)
	}
}

func TestBothSpellingsSayTheSame(t *testing.T) {
	t.Parallel()
	camel := parse(t, `{"systemInstruction":{"parts":[{"text":"s"}]},"tools":[{"functionDeclarations":[{"name":"f"}]}],"contents":[{"role":"user","parts":[{"text":"hi"}]},
		{"role":"model","parts":[{"text":"t","thought":true},{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"s"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"result":"r"}}}]}]}`)
	snake := parse(t, `{"contents":[{"parts":[{"text":"hi"}]},
		{"role":"model","parts":[{"function_call":{"name":"f","args":{"x":1.0}},"thought_signature":"s"}]},{"role":"function","parts":{"function_response":{"response":{"output":"r"},"name":"f"}}}],
		"system_instruction":{"parts":{"text":"s"}},"tools":{"function_declarations":[{"name":"f"}]}}`)
	if diff := cmp.Diff(camel.Tail, snake.Tail); diff != "" || camel.Opening != snake.Opening || camel.Transcript.Agent() != snake.Transcript.Agent() {
		t.Errorf("they differ: %s", diff)
	}
	a, _ := camel.Transcript.History(provider.Rules{})
	b, _ := snake.Transcript.History(provider.Rules{})
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}

func TestOneFieldInTwoSpellingsIsAmbiguous(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"systemInstruction":{"parts":[{"text":"a"}]},"system_instruction":{"parts":[{"text":"b"}]},"contents":[{"parts":[{"text":"hi"}]}]}`,
		`{"contents":[{"parts":[{"functionCall":{"name":"f"},"function_call":{"name":"g"}}]}]}`,
	} {
		if p, err := (gemini.Generate{}).Parse([]byte(body), provider.Options{}); !errors.Is(err, provider.ErrAmbiguous) {
			t.Errorf("%s: %v, %v", body, p, err)
		}
	}
	body := []byte(`{"systemInstruction":{"parts":[]},"system_instruction":{"parts":[]},"contents":[]}`)
	if _, err := (gemini.Generate{}).Hint(body, "stop", provider.Head); !errors.Is(err, provider.ErrNoPlace) {
		t.Errorf("it takes a hint: %v", err)
	}
}

func TestResponsesMatchByNameAndOrder(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1}}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f","args":{"n":2}}}]},
		{"parts":[{"functionResponse":{"name":"f","response":{"output":"one"}}},{"functionResponse":{"name":"f","response":{"n":2}}},{"functionResponse":{"name":"h","response":{}}},{"functionResponse":{"name":"g","response":{"error":"no"}}}]}]}`)
	items, _ := p.Transcript.History(provider.Rules{})
	calls := items[0].Calls
	if len(calls) != 3 || calls[0].Result.IsZero() || calls[2].Result.IsZero() || calls[0].Result == calls[2].Result || !calls[1].Failed || calls[0].Failed {
		t.Errorf("%+v", calls)
	}
}

func TestLongRunningFunctionsAreNotAnsweredYet(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"contents":[{"role":"model","parts":[{"functionCall":{"id":"1","name":"f"}}]},{"parts":[{"functionResponse":{"id":"1","name":"f","willContinue":true,"response":{"output":"…"}}}]}]}`)
	if items, _ := p.Transcript.History(provider.Rules{}); !items[0].Calls[0].Result.IsZero() {
		t.Errorf("%+v", items)
	}
}

func TestErrorsHaveGooglesNames(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
		500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	} {
		got := string(gemini.Other{}.Refusal(provider.Refusal{Status: status, Code: "c", Message: "m"}))
		wantBody := fmt.Sprintf(`{"error":{"code":%d,"message":"m","status":"%s","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"C","domain":"unloop"}]}}`, status, want)
		if got != wantBody {
			t.Errorf("%d: %s", status, got)
		}
	}
}

func TestDetailOfALoopIsAmongGooglesOwnDetailsToo(t *testing.T) {
	t.Parallel()
	got := gemini.Generate{}.Refusal(provider.Refusal{Status: 429, Code: "recursive_loop_detected", Message: "m", Detail: &client.Detail{
		Error: "recursive_loop_detected", Message: "m", Detector: "prompt", Policy: "p", Fingerprint: "f", HitCount: 6, WindowSeconds: 60, CooldownSeconds: 30, LoopID: "l",
	}})
	want := `"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RECURSIVE_LOOP_DETECTED","domain":"unloop",` +
		`"metadata":{"cooldown_seconds":"30","detector":"prompt","fingerprint":"f","hit_count":"6","loop_id":"l","policy":"p","window_seconds":"60"}}]`
	if !strings.Contains(string(got), want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
}

func TestHintsInEachFormOfTheInstruction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, position, want string }{
		{`{"contents":[]}`, "head", `{"systemInstruction":{"parts":[{"text":"stop"}]},"contents":[]}`},
		{`{}`, "head", `{"systemInstruction":{"parts":[{"text":"stop"}]}}`},
		{`{"system_instruction":{"parts":[{"text":"a"}]}}`, "head", `{"system_instruction":{"parts":[{"text":"a"},{"text":"stop"}]}}`},
		{`{"systemInstruction":{"role":"system"}}`, "head", `{"systemInstruction":{"parts":[{"text":"stop"}],"role":"system"}}`},
		{`{"systemInstruction":null}`, "head", `{"systemInstruction":{"parts":[{"text":"stop"}]}}`},
		{`{"systemInstruction":"a"}`, "head", `{"systemInstruction":"stop\n\na"}`},
		{`{"systemInstruction":{"parts":{"text":"a"}}}`, "head", `{"systemInstruction":{"parts":[{"text":"a"},{"text":"stop"}]}}`},
		{`{"systemInstruction":{"parts":1}}`, "head", ""},
		{`{"contents":[{"parts":{"text":"a"}}]}`, "result", `{"contents":[{"parts":[{"text":"a"},{"text":"stop"}]}]}`},
		{`{"cachedContent":"c","contents":[]}`, "head", ""},
		{`{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[]}]}`, "result", `{"contents":[{"role":"user","parts":[{"text":"a"},{"text":"stop"}]},{"role":"model","parts":[]}]}`},
		{`{"contents":{"parts":[]}}`, "result", `{"contents":{"parts":[{"text":"stop"}]}}`},
		{`{"contents":[]}`, "result", ""},
	} {
		got, err := gemini.Generate{}.Hint([]byte(c.body), "stop", c.position)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v", c.body, got, err)
		}
	}
}

// The functions of computer use are the provider's, and named nowhere.
func TestFunctionsOfComputerUseAreOffered(t *testing.T) {
	t.Parallel()
	for tools, want := range map[string]bool{
		`[{"functionDeclarations":[{"name":"read"}]}]`:                                                       true,
		`[{"functionDeclarations":[{"name":"read"}]},{"computerUse":{"environment":"ENVIRONMENT_BROWSER"}}]`: false,
		`[{"function_declarations":[{"name":"read"}],"computer_use":{}}]`:                                    false,
	} {
		p := parse(t, `{"tools":`+tools+`,"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":"click_at","args":{}}}]}]}`)
		history, _ := p.Transcript.History(provider.Rules{})
		if got := history[1].Calls[0].NotOffered; got != want {
			t.Errorf("%s: not offered is %v", tools, got)
		}
	}
}

// JSON of protocol buffers reads null as absent.
func TestANullInstructionIsNone(t *testing.T) {
	t.Parallel()
	const contents = `"contents":[{"role":"user","parts":[{"text":"go"}]}]}`
	without, null := parse(t, `{`+contents), parse(t, `{"systemInstruction":null,`+contents)
	if without.Opening != null.Opening || len(null.Tail) != 1 {
		t.Errorf("%+v", null)
	}
}
