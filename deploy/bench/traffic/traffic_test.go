package traffic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const recorded = `{"model":"m","label":"honest","messages":[
 {"role":"system","content":"Work."},{"role":"user","content":"Fix it."},
 {"role":"assistant","content":null,"tool_calls":[{"id":"c0","type":"function","function":{"name":"ls","arguments":"{}"}}]},
 {"role":"tool","tool_call_id":"c0","content":"a.go"},
 {"role":"assistant","content":[{"type":"text","text":"I see."}]},{"role":"user","content":"Go on."},
 {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"cat","arguments":"{\"file\": \"a.go\"}"}}]},
 {"role":"tool","tool_call_id":"c1","content":"package a"},
 {"role":"assistant","content":"Done."}]}`

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRecordedSessionsAreSentTurnByTurn(t *testing.T) {
	t.Parallel()
	line := strings.ReplaceAll(recorded, "\n", "")
	file := write(t, "sessions.jsonl", line+"\n"+strings.Replace(line, "honest", "stuck", 1)+"\n")
	all, err := Read(filepath.Dir(file))
	if err != nil || len(all) != 1 || len(all[0]) != 4 {
		t.Fatalf("%d sessions, error %v; want the honest one", len(all), err)
	}
	var sizes []int
	for i, turn := range all[0] {
		var body struct {
			Model    string
			Messages []json.RawMessage
			Tools    []json.RawMessage
		}
		if err := json.Unmarshal(turn.Append(nil, 7), &body); err != nil {
			t.Fatal(err)
		}
		if want := []int{2, 4, 6, 8}[i]; len(body.Messages) != want || len(body.Tools) != 2 || body.Model != "m" {
			t.Errorf("turn %d has %d messages and %d tools, want %d and 2", i, len(body.Messages), len(body.Tools), want)
		}
		sizes = append(sizes, turn.Size())
	}
	mean, largest := float64(sizes[0]+sizes[1]+sizes[2]+sizes[3])/4000, float64(sizes[3])/1000
	if want := fmt.Sprintf("1 sessions, 4 requests of %.1f KB on average, at most %.0f KB", mean, largest); Shape(all) != want {
		t.Errorf("shape %q, want %q", Shape(all), want)
	}
}

func TestRunsDifferInEveryMessageButTheSystemPrompt(t *testing.T) {
	t.Parallel()
	all, err := Read(write(t, "session.json", recorded))
	if err != nil {
		t.Fatal(err)
	}
	messages := func(run uint32) (out []string) {
		var body struct{ Messages []json.RawMessage }
		if err := json.Unmarshal(all[0][3].Append([]byte("x"), run)[1:], &body); err != nil {
			t.Fatal(err)
		}
		for _, m := range body.Messages {
			out = append(out, string(m))
		}
		return out
	}
	first, second, again := messages(1), messages(2), messages(1)
	for i := range first {
		if (first[i] == second[i]) != (i == 0) || first[i] != again[i] {
			t.Errorf("message %d:\nrun 1 %s\nrun 2 %s\nrun 1 %s", i, first[i], second[i], again[i])
		}
	}
}

func TestGeneratedSessionsHaveTheShapeOfRecordedOnes(t *testing.T) {
	t.Parallel()
	all, err := Generate(60, 1)
	if err != nil {
		t.Fatal(err)
	}
	requests, bytesOfAll, largest := 0, 0, 0
	for _, s := range all {
		for _, turn := range s {
			requests, bytesOfAll, largest = requests+1, bytesOfAll+turn.Size(), max(largest, turn.Size())
		}
	}
	if mean := bytesOfAll / requests; requests != 60*generatedTurns || mean < 10_000 || mean > 14_000 || largest < 30_000 || largest > maxBody {
		t.Errorf("shape: %s", Shape(all))
	}
	if first := all[0][0].Size(); first < 1500 || first > 4000 {
		t.Errorf("a session begins with %d bytes", first)
	}
	again, err := Generate(1, 1)
	if err != nil || !bytes.Equal(again[0][11].Append(nil, 1), all[0][11].Append(nil, 1)) {
		t.Errorf("the same seed gave another session, error %v", err)
	}
}

func TestFilesWithoutSessionsAreErrors(t *testing.T) {
	t.Parallel()
	if _, err := Read(write(t, "a.json", `{"messages":[]}`)); !errors.Is(err, ErrNoSessions) {
		t.Errorf("no messages: error %v", err)
	}
	if _, err := Read(write(t, "a.jsonl", "{}\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "a.jsonl") {
		t.Errorf("nonsense: error %v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: error %v", err)
	}
}
