package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trajectories are recorded sessions of honest agents, as lists of OpenAI
// messages: those that UNLOOP_TEST_TRAJECTORIES names, else those beside the
// repository, else our own.
func trajectories(t *testing.T) map[string][]json.RawMessage {
	t.Helper()
	files := find(t, os.Getenv("UNLOOP_TEST_TRAJECTORIES"), "../../../shared/trajectories", "testdata/trajectories")
	sessions := map[string][]json.RawMessage{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sessions[filepath.Base(file)] = messagesOf(t, file, data)
	}
	return sessions
}

// find lists the JSON files of the first folder that has any.
func find(t *testing.T, folders ...string) []string {
	t.Helper()
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err == nil && folder != "" && len(files) > 0 {
			return files
		}
	}
	t.Fatal("no trajectories found, not even our own")
	return nil
}

// messagesOf reads a list of messages, or an object that has one.
func messagesOf(t *testing.T, file string, data []byte) []json.RawMessage {
	t.Helper()
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		return list
	}
	var object struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(data, &object); err != nil || len(object.Messages) == 0 {
		t.Fatalf("%s holds no messages: %v", file, err)
	}
	return object.Messages
}

func roleOf(message json.RawMessage) string {
	var m struct{ Role string }
	_ = json.Unmarshal(message, &m) // a message without a role is no assistant's
	return m.Role
}

// Every prefix of a session that ends before an assistant's message was a
// request. Replayed as fast as they go, none of an honest agent is a loop.
func TestHonestSessionsPassWithoutAFinding(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, standard)).URL() // whatever the load, texts are compared
	for name, messages := range trajectories(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			for i, message := range messages {
				if roleOf(message) != "assistant" {
					continue
				}
				requests++
				body, err := json.Marshal(map[string]any{"model": "m", "messages": messages[:i]})
				if err != nil {
					t.Fatal(err)
				}
				a := send(t, url, chat(string(body)).with("Authorization", "Bearer "+name))
				for header := range a.header {
					if strings.HasPrefix(header, "X-Loop-") {
						t.Errorf("request before message %d: %s: %s", i, header, a.header.Get(header))
					}
				}
				if a.status != http.StatusOK {
					t.Errorf("request before message %d: status %d", i, a.status)
				}
			}
			if requests == 0 {
				t.Error("the session has no assistant message")
			}
		})
	}
}
