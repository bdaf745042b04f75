package compare_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/realparts"
)

type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []struct {
		Function struct{ Name, Arguments string } `json:"function"`
	} `json:"tool_calls"`
}

// text is what a message says and calls.
func (m chatMessage) text() string {
	var plain string
	var parts []struct{ Text string }
	if json.Unmarshal(m.Content, &plain) != nil && json.Unmarshal(m.Content, &parts) == nil {
		for _, p := range parts {
			plain += p.Text + "\n"
		}
	}
	for _, c := range m.ToolCalls {
		plain += "\n" + c.Function.Name + " " + c.Function.Arguments
	}
	return plain
}

// requests returns the newest exchange of each request of a session: what the
// agent last said and called, with all that it was answered.
func requests(messages []chatMessage) (subjects []side) {
	said, answers := "", []string{}
	for i, m := range messages {
		switch m.Role {
		case "assistant":
			said, answers = m.text(), nil
		case "user", "tool":
			answers = append(answers, m.text())
			if i+1 < len(messages) && messages[i+1].Role != "assistant" {
				continue
			}
			if said == "" {
				subjects = append(subjects, side{said: strings.Join(answers, "\n")})
			} else {
				subjects = append(subjects, side{said, strings.Join(answers, "\n")})
			}
		}
	}
	return subjects
}

func TestRealSessionsHoldNoLoop(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(realparts.Sibling(t, "shared", "trajectories"), "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	e := embed.NewLexical()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var session struct{ Messages []chatMessage }
		if err := json.Unmarshal(data, &session); err != nil {
			t.Fatal(err)
		}
		subjects := requests(session.Messages)
		if len(subjects) < 3 {
			t.Errorf("%s: %d requests", file, len(subjects))
		}
		var history []compare.Subject
		for i, r := range subjects {
			s := subject(t, e, r)
			v := compare.Decide(compared(s, history), compare.Rule{Threshold: threshold, MinMatches: 2})
			if v.Detected {
				t.Errorf("%s: request %d repeats at %.3f: %.80q", filepath.Base(file), i, v.MaxSimilarity, r.said)
			}
			history = append([]compare.Subject{s}, history...)[:min(5, len(history)+1)]
		}
	}
}
