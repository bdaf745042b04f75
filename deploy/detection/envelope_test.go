package detection

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/checkpb"
)

// looping is a session in which one command brings one result after the other.
func looping(t *testing.T, results []string) Session {
	t.Helper()
	list := []map[string]any{{"role": "user", "content": "What is in the tower?"}}
	for i, result := range results {
		id := string(rune('a' + i))
		call := map[string]any{"id": id, "type": "function", "function": map[string]string{"name": "run_shell_command", "arguments": `{"command":"ls"}`}}
		list = append(list, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": result})
	}
	list = append(list, map[string]any{"role": "assistant", "content": "Bells."})
	s := Session{ActsBy: "tools", Label: "stuck", StaleFrom: new(int)}
	for _, m := range list {
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		s.Messages = append(s.Messages, raw)
	}
	return s
}

// A coding agent's shell wraps each result in what differs from one run to the
// next. The files hold six results of one command in each agent's envelope.
func TestTheEnvelopesOfCodingAgentsHideNoLoop(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/envelopes/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d envelopes: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			session := looping(t, strings.Split(string(text), "\n=====\n"))
			results, err := Replay(t.Context(), []Session{session}, Way{})
			if err != nil {
				t.Fatal(err)
			}
			stopped := -1
			for _, m := range results[0].Actions {
				if m.Action == checkpb.Action_ACTION_REJECT && stopped < 0 {
					stopped = m.Request
				}
			}
			if stopped != 5 {
				t.Errorf("stopped after round %d, want 5\n%s", stopped, results[0].String())
			}
		})
	}
}
