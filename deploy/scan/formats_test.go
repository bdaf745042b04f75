package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/unloop/unloop/deploy/scan/agents"
	"github.com/unloop/unloop/embedworker"
)

// rounds is how often each of the recorded agents calls the same tool with the same result.
const rounds = 8

// stamp is the time of step n: one every ten seconds.
func stamp(n int) string {
	return fmt.Sprintf("2026-03-02T09:%02d:%02d.500Z", n*10/60, n*10%60)
}

// recording writes a session in an agent's format: a question, rounds of one failing command, and
// an answer. Each answer costs 1,000 tokens of input, 600 of them cached, and 20 of output.
var recordings = map[string]struct {
	path  string
	write func(t *testing.T, path string)
}{
	"claude":    {".claude/projects/-home-ada-shop/0d1c.jsonl", writeLines(claudeLines)},
	"codex":     {".codex/sessions/2026/03/02/rollout-2026-03-02T09-00-00-7f.jsonl", writeLines(codexLines)},
	"gemini":    {".gemini/tmp/shop/chats/session-2026-03-02T09-00-3a.jsonl", writeLines(geminiLines)},
	"opencode":  {".local/share/opencode/opencode.db", writeOpencode},
	"copilot":   {".copilot/session-state/51.jsonl", writeLines(copilotLines)},
	"swe-agent": {"runs/shop.traj", writeSWE},
	"openhands": {"runs/shop.json", writeOpenHands},
}

func writeLines(lines func() []string) func(*testing.T, string) {
	return func(t *testing.T, path string) { writeFile(t, path, strings.Join(lines(), "\n")+"\n") }
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func claudeLines() []string {
	line := func(n int, kind, message string) string {
		return fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"type":%q,"message":%s,"uuid":"u%d","timestamp":%q,"sessionId":"0d1c","cwd":"/home/ada/shop"}`, kind, message, n, stamp(n))
	}
	const usage = `"usage":{"input_tokens":300,"cache_creation_input_tokens":100,"cache_read_input_tokens":600,"output_tokens":20}`
	out := []string{`{"type":"queue-operation","sessionId":"0d1c"}`, line(0, "user", `{"role":"user","content":"Make the tests pass."}`), `{"message":{"broken`}
	for i := range rounds {
		// An answer has a line for each block.
		out = append(out,
			line(2*i+1, "assistant", fmt.Sprintf(`{"id":"msg_%d","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"I try again."}],%s}`, i, usage)),
			line(2*i+1, "assistant", fmt.Sprintf(`{"id":"msg_%d","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"npm test"}}],%s}`, i, i, usage)),
			line(2*i+2, "user", fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"1 failed: cart","is_error":true}]}`, i)))
	}
	return append(out, line(2*rounds+1, "assistant", `{"id":"msg_end","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"I give up."}],`+usage+`}`))
}

func codexLines() []string {
	line := func(n int, kind, payload string) string {
		return fmt.Sprintf(`{"timestamp":%q,"type":%q,"payload":%s}`, stamp(n), kind, payload)
	}
	const tokens = `{"type":"token_count","info":{"last_token_usage":{"input_tokens":1000,"cached_input_tokens":600,"output_tokens":20}}}`
	out := []string{
		line(0, "session_meta", `{"id":"7f","cwd":"/home/ada/shop"}`), line(0, "turn_context", `{"model":"gpt-5.1-codex"}`),
		line(0, "response_item", `{"type":"message","role":"developer","content":[{"type":"input_text","text":"Rules."}]}`),
		line(0, "response_item", `{"type":"message","role":"user","content":[{"type":"input_text","text":"Make the tests pass."}]}`),
	}
	for i := range rounds {
		out = append(out,
			line(2*i+1, "response_item", fmt.Sprintf(`{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"npm test\"}","call_id":"c%d"}`, i)),
			line(2*i+2, "response_item", fmt.Sprintf(`{"type":"function_call_output","call_id":"c%d","output":"Chunk ID: %06x\nProcess exited with code 1\nOutput:\n1 failed: cart\n"}`, i, i*99)),
			line(2*i+2, "event_msg", tokens))
	}
	return append(out, line(2*rounds+1, "response_item", `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I give up."}]}`), line(2*rounds+1, "event_msg", tokens))
}

func geminiLines() []string {
	out := []string{
		`{"sessionId":"3a","projectHash":"20","startTime":"2026-03-02T09:00:00Z","kind":"main"}`,
		fmt.Sprintf(`{"id":"q","timestamp":%q,"type":"user","content":[{"text":"Make the tests pass."}]}`, stamp(0)),
	}
	for i := range rounds {
		begin := fmt.Sprintf(`{"id":"m%d","timestamp":%q,"type":"gemini","content":"","tokens":{"input":1000,"cached":600,"output":15,"thoughts":5},"model":"gemini-2.5-flash"`, i, stamp(2*i+1))
		out = append(out, begin+`}`, `{"$set":{"lastUpdated":"x"}}`, begin+fmt.Sprintf(
			`,"toolCalls":[{"id":"g%d","name":"run_shell_command","args":{"command":"npm test"},"status":"error","timestamp":%q,"result":[{"functionResponse":{"response":{"error":"1 failed: cart"}}}]}]}`, i, stamp(2*i+2)),
			fmt.Sprintf(`{"id":"r%d","timestamp":%q,"type":"user","content":[{"functionResponse":{"response":{"error":"1 failed: cart"}}}]}`, i, stamp(2*i+2)))
	}
	return append(out, fmt.Sprintf(`{"id":"end","timestamp":%q,"type":"gemini","content":"I give up.","tokens":{"input":1000,"cached":600,"output":20},"model":"gemini-2.5-flash"}`, stamp(2*rounds+1)))
}

func copilotLines() []string {
	line := func(n int, kind, data string) string {
		return fmt.Sprintf(`{"type":%q,"data":%s,"id":"e%d","timestamp":%q,"parentId":null}`, kind, data, n, stamp(n))
	}
	out := []string{line(0, "session.start", `{"sessionId":"51","producer":"copilot-agent","selectedModel":"gpt-5"}`), line(0, "user.message", `{"content":"Make the tests pass."}`)}
	answer := func(n, i int, rest string) {
		const usage = `"model":"gpt-5","inputTokens":1000,"outputTokens":20,"cacheReadTokens":600`
		message := line(n, "assistant.message", fmt.Sprintf(`{"messageId":"m%d","apiCallId":"a%[1]d",%s}`, i, rest))
		if i%2 == 0 { // as earlier versions wrote it
			out = append(out, message, line(n, "assistant.usage", "{"+usage+"}"))
			return
		}
		out = append(out, line(n, "session.usage_record", fmt.Sprintf(`{"usage":{%s,"apiCallId":"a%d"}}`, usage, i)), message)
	}
	for i := range rounds {
		answer(2*i+1, i, fmt.Sprintf(`"content":"","toolRequests":[{"toolCallId":"t%d","name":"bash","arguments":{"command":"npm test"}}]`, i))
		out = append(out, line(2*i+2, "tool.execution_complete", fmt.Sprintf(`{"toolCallId":"t%d","success":false,"error":{"message":"1 failed: cart"}}`, i)))
	}
	answer(2*rounds+1, rounds, `"content":"I give up."`)
	return out
}

func writeOpencode(t *testing.T, path string) {
	t.Helper()
	writeOpencodes(t, path, 1)
}

// writeOpencodes writes a database with sessions, one an hour.
func writeOpencodes(t *testing.T, path string, sessions int) {
	t.Helper()
	writeFile(t, path, "")
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	sql := `CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer, data text);
		CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
		CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer, time_updated integer, data text);
		CREATE INDEX part_message_id_id_idx ON part (message_id, id);
		BEGIN;`
	var all strings.Builder
	all.WriteString(sql)
	for n := range sessions {
		session := fmt.Sprint("ses_", n+1)
		opencodeSession(session, n, func(id, data string) {
			fmt.Fprintf(&all, "INSERT INTO message VALUES ('%s', '%s', %d, 0, '%s');\n", id, session, all.Len(), data)
		}, func(message, id, data string) {
			fmt.Fprintf(&all, "INSERT INTO part VALUES ('%s', '%s', '%s', %d, 0, '%s');\n", id, message, session, all.Len(), data)
		})
	}
	all.WriteString("COMMIT;")
	if err := db.Exec(all.String()); err != nil {
		t.Fatal(err)
	}
}

// opencodeSession calls message and part with those of a session that begins at an hour. The
// ids are in their order.
func opencodeSession(session string, hour int, message func(id, data string), part func(message, id, data string)) {
	begin := 1772442000000 + hour*3600_000 // 2026-03-02 09:00 in milliseconds
	parts := 0
	write := func(n int, id, data string, of ...string) {
		id = session + id
		message(id, fmt.Sprintf(`{"time":{"created":%d},%s`, begin+n*10000, data[1:]))
		for _, text := range of {
			parts++
			part(id, fmt.Sprintf("prt_%s%04d", session, parts), text)
		}
	}
	const finish = `{"type":"step-finish","tokens":{"input":400,"output":15,"reasoning":5,"cache":{"read":600,"write":0}},"cost":0}`
	write(0, "m_0", `{"role":"user","summary":{"title":"Tests"}}`, `{"type":"text","text":"Make the tests pass."}`)
	for i := range rounds {
		write(2*i+1, fmt.Sprintf("m_1%02d", i), `{"role":"assistant","modelID":"gpt-5"}`, `{"type":"step-start"}`,
			fmt.Sprintf(`{"type":"tool","tool":"bash","callID":"c%d","state":{"status":"error","input":{"command":"npm test"},"error":"1 failed: cart","time":{"start":%d,"end":%d}}}`, i, begin+(2*i+1)*10000, begin+(2*i+2)*10000), finish)
	}
	write(2*rounds+1, "m_2", `{"role":"assistant","modelID":"gpt-5"}`, `{"type":"step-start"}`, `{"type":"text","text":"I give up."}`, finish)
}

// writeStorage writes a session as earlier versions of opencode did, below a folder.
func writeStorage(t *testing.T, folder, session string) {
	t.Helper()
	writeFile(t, filepath.Join(folder, "storage/session/shop", session+".json"), fmt.Sprintf(`{"id":%q,"projectID":"shop","title":"Tests"}`, session))
	opencodeSession(session, 0, func(id, data string) {
		writeFile(t, filepath.Join(folder, "storage/message", session, id+".json"), data)
	}, func(message, id, data string) {
		writeFile(t, filepath.Join(folder, "storage/part", message, id+".json"), data)
	})
}

func writeSWE(t *testing.T, path string) {
	t.Helper()
	history := []map[string]any{{"role": "system", "content": "You code."}, {"role": "user", "content": []any{map[string]any{"type": "text", "text": "Make the tests pass."}}}}
	for i := range rounds {
		id := fmt.Sprint("c", i)
		history = append(history,
			map[string]any{"role": "assistant", "content": "Again.", "tool_calls": []any{map[string]any{"id": id, "function": map[string]any{"name": "bash", "arguments": `{"command":"npm test"}`}}}},
			map[string]any{"role": "tool", "content": "1 failed: cart", "tool_call_ids": []string{id}})
	}
	writeJSON(t, path, map[string]any{"trajectory": []any{}, "history": append(history, map[string]any{"role": "assistant", "content": "I give up."})})
}

func writeOpenHands(t *testing.T, path string) {
	t.Helper()
	events := []map[string]any{{"id": 0, "timestamp": "2026-03-02T09:00:00.500000", "source": "user", "action": "message", "args": map[string]any{"content": "Make the tests pass."}}}
	for i := range rounds {
		call := map[string]any{"tool_call_id": fmt.Sprint("c", i), "function_name": "execute_bash", "model_response": map[string]any{
			"id": fmt.Sprint("r", i), "model": "gpt-5", "usage": map[string]any{"prompt_tokens": 1000, "completion_tokens": 20},
		}}
		events = append(events,
			map[string]any{"id": 2*i + 1, "timestamp": strings.TrimSuffix(stamp(2*i+1), "Z"), "source": "agent", "action": "run", "args": map[string]any{"command": "npm test"}, "tool_call_metadata": call},
			map[string]any{"id": 2*i + 2, "timestamp": strings.TrimSuffix(stamp(2*i+2), "Z"), "source": "agent", "observation": "run", "cause": 2*i + 1, "content": "1 failed: cart", "tool_call_metadata": call})
	}
	writeJSON(t, path, append(events, map[string]any{"id": 2*rounds + 1, "timestamp": "2026-03-02T09:03:00.0", "source": "agent", "action": "message", "args": map[string]any{"content": "I give up."}}))
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(text))
}

func config() Config {
	cfg := Config{Embedworker: embedworker.DefaultConfig(), Pace: time.Second}
	cfg.Embedworker.Embedder = "lexical"
	return cfg
}

// Each agent's sessions have the same loop: found in the same requests, with the recorded costs.
func TestSessionsOfEachAgentHaveTheirLoop(t *testing.T) {
	t.Parallel()
	for _, a := range agents.All {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			recording, home := recordings[a.Name], t.TempDir()
			if recording.write == nil {
				t.Fatal("no recording")
			}
			path := filepath.Join(home, recording.path)
			recording.write(t, path)
			files, err := At(home, Config{}.Since)
			if err != nil || len(files) != 1 || files[0].Agent != a {
				t.Fatalf("files %+v, %v", files, err)
			}
			r, err := Files(t.Context(), files, config())
			if err != nil {
				t.Fatal(err)
			}
			if r.Sessions != 1 || r.Looped != 1 || r.Spent.Requests != rounds+1 || len(r.Loops) != 1 || r.Agents[0].Title != a.Title {
				t.Fatalf("report %+v", r)
			}
			l := r.Loops[0]
			if what := l.What(); !strings.Contains(what, "npm test") || l.Did.Hinted != 4 || l.Did.Stopped != 6 || l.SessionRequests != rounds+1 {
				t.Errorf("%q: %+v of %d requests: %s", what, l.Did, l.SessionRequests, l.Text)
			}
			if a.Name == "swe-agent" { // its histories have neither tokens nor times
				return
			}
			tokens := rounds * 1000
			if a.Name != "openhands" { // whose messages to people have no tokens
				tokens += 1000
			}
			if r.Spent.InputTokens != tokens && a.Name != "openhands" || r.Spent.OutputTokens < rounds*20 || l.Seconds < 60 || l.Seconds > 120 {
				t.Errorf("spent %+v in %g s", r.Spent, l.Seconds)
			}
		})
	}
}

// What agents keep is found in their folders below the home folder, or where a variable says.
func TestHomeIsSearchedForWhatAgentsKeep(t *testing.T) {
	t.Parallel()
	home, other := t.TempDir(), t.TempDir()
	want := 0
	for _, a := range agents.All {
		if len(a.Folders) > 0 {
			recordings[a.Name].write(t, filepath.Join(home, recordings[a.Name].path))
			want++
		}
	}
	writeFile(t, filepath.Join(home, ".claude/projects/x/notes.txt"), "{}")
	writeFile(t, filepath.Join(home, ".gemini/tmp/shop/logs.json"), "[]")
	recordings["codex"].write(t, filepath.Join(other, "sessions/rollout-1.jsonl"))
	files, err := Home(home, func(string) string { return "" }, Config{}.Since)
	if err != nil || len(files) != want {
		t.Errorf("%d files, want %d: %+v, %v", len(files), want, files, err)
	}
	files, err = Home(home, func(name string) string { return map[string]string{"CODEX_HOME": other}[name] }, Config{}.Since)
	if err != nil || len(files) != want || !strings.HasPrefix(files[1].Path, other) {
		t.Errorf("with CODEX_HOME: %+v, %v", files, err)
	}
}

// A database is read session by session, and many sessions in parts of it.
func TestSessionsOfADatabaseAreReadInParts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "opencode.db")
	writeOpencodes(t, path, 250)
	parts, err := agents.All[3].Parts(path)
	if err != nil || len(parts) != 2 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files, err := At(path, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var read int64
	var mu sync.Mutex
	cfg := config()
	cfg.Progress = func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		read += n
	}
	r, err := Files(t.Context(), files, cfg)
	if err != nil || r.Sessions != 250 || r.Looped != 250 || r.Spent.Requests != 250*(rounds+1) || r.Unreadable != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if all := int64(len(before)); read < all*99/100 || read > all {
		t.Errorf("%d of %d bytes were reported as progress", read, len(before))
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database was changed, %v", err)
	}
}
