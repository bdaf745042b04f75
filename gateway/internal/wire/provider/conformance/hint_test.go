package conformance

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/client"
)

// Hint is a hint that needs quoting.
const Hint = "Take a \"different\" approach.\nNow – 別."

func (s suite) hints(t *testing.T) {
	t.Parallel()
	quoted, err := json.Marshal(Hint)
	if err != nil {
		t.Fatal(err)
	}
	content := quoted[1 : len(quoted)-1]
	for turns := 1; turns <= 5; turns += 2 {
		c := Fixing()
		c.Turns = c.Turns[:turns]
		body := s.write(c)
		for _, position := range []string{provider.Head, provider.Result} {
			got, err := s.p.Hint(body, Hint, position)
			if err != nil {
				t.Fatalf("%s: %v", position, err)
			}
			onlyAdded(t, body, got, content)
			before, after := s.parse(t, c, provider.Options{Tail: 1}), s.reparse(t, got)
			if position == provider.Head && before.Tail[0] != after.Tail[0] {
				t.Error("a hint at the head is in the newest message")
			}
			if position == provider.Result && before.Transcript.Agent() != after.Transcript.Agent() {
				t.Error("a hint behind the result is in the system prompt")
			}
			_, answered := after.Transcript.Exchange(1 << 20)
			if position == provider.Result && !strings.HasSuffix(answered, Hint) {
				t.Errorf("the newest message ends with %q", answered)
			}
		}
	}
}

func (s suite) reparse(t *testing.T, body []byte) *provider.Prompt {
	t.Helper()
	prompt, err := s.p.Parse(body, provider.Options{Tail: 1})
	if err != nil || prompt == nil {
		t.Fatalf("with the hint it is %v, %v:\n%s", prompt, err, body)
	}
	return prompt
}

// onlyAdded checks that got is body with one run of bytes added, and that the run
// has the hint in it.
func onlyAdded(t *testing.T, body, got, content []byte) {
	t.Helper()
	added := len(got) - len(body)
	same := 0
	for same < len(body) && body[same] == got[same] {
		same++
	}
	for ; same >= 0; same-- {
		if bytes.Equal(got[same+added:], body[same:]) && bytes.Contains(got[same:same+added], content) {
			return
		}
	}
	t.Errorf("more than the hint changed:\n%s\n%s", body, got)
}

// refusal is the error of a format, which may be a text alone.
type refusal struct {
	Message string         `json:"message"`
	Detail  *client.Detail `json:"detail"`
	text    bool
}

// UnmarshalJSON reads either form.
func (r *refusal) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		r.text = true
		return json.Unmarshal(raw, &r.Message)
	}
	type plain refusal
	return json.Unmarshal(raw, (*plain)(r))
}

func (s suite) refusals(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 413, 429, 500, 502, 503, 504} {
		detail := &client.Detail{Error: "recursive_loop_detected", Message: "no \"more\"", Detector: "prompt", HitCount: 6, LoopID: "l-1"}
		inner := *detail
		inner.Message = "" // the error has it beside the detail
		var answer struct {
			Error  refusal        `json:"error"`
			Detail *client.Detail `json:"detail"`
			// Message is that of formats whose error is the answer itself.
			Message string `json:"message"`
		}
		body := s.p.Refusal(provider.Refusal{Status: status, Code: "recursive_loop_detected", Message: "no \"more\"", Detail: detail})
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Message != "" {
			answer.Error = refusal{Message: answer.Message, text: true}
		}
		if answer.Error.Message != "no \"more\"" || answer.Detail == nil || *answer.Detail != *detail ||
			!answer.Error.text && (answer.Error.Detail == nil || *answer.Error.Detail != inner) {
			t.Errorf("status %d: %s", status, body)
		}
		if body = s.p.Refusal(provider.Refusal{Status: status, Code: "x", Message: "m"}); bytes.Contains(body, []byte(`"detail"`)) {
			t.Errorf("a detail out of nothing: %s", body)
		}
	}
}
