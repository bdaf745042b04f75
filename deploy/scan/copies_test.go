package scan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/scan/agents"
)

// at scans all that is below a folder.
func at(t *testing.T, folder string) *Report {
	t.Helper()
	files, err := At(folder, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Files(t.Context(), files, config())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A session that goes on from another begins with a copy of it. Each answer counts once, and
// the copy is what was said before.
func TestCopiedMessagesCountOnce(t *testing.T) {
	t.Parallel()
	claude := strings.Join(claudeLines(), "\n") + "\n"
	codex := strings.Join(codexLines(), "\n") + "\n"
	for name, c := range map[string]struct {
		write func(t *testing.T, folder string)
		// requests are those of all files, and sessions the files with some of their own.
		requests, sessions int
	}{
		"Claude Code, resumed": {func(t *testing.T, folder string) {
			t.Helper()
			writeFile(t, filepath.Join(folder, "a.jsonl"), claude)
			more := strings.NewReplacer("0d1c", "9f", `"id":"msg_end"`, `"id":"more"`, stamp(2*rounds+1), "2026-03-02T10:00:00Z").Replace(claudeLines()[len(claudeLines())-1])
			writeFile(t, filepath.Join(folder, "b.jsonl"), strings.ReplaceAll(claude, "0d1c", "9f")+more+"\n")
		}, rounds + 2, 2},
		"Claude Code, forked and left": {func(t *testing.T, folder string) {
			t.Helper()
			writeFile(t, filepath.Join(folder, "a.jsonl"), claude)
			writeFile(t, filepath.Join(folder, "b.jsonl"), strings.ReplaceAll(claude, "0d1c", "9f"))
		}, rounds + 1, 1},
		"Codex, forked": {func(t *testing.T, folder string) {
			t.Helper()
			writeFile(t, filepath.Join(folder, "rollout-a.jsonl"), codex)
			fork := strings.ReplaceAll(codex, "2026-03-02T09", "2026-03-02T11")
			own := fmt.Sprintf(`{"timestamp":%q,"type":"session_meta","payload":{"id":"8a","forked_from_id":"7f"}}`, "2026-03-02T11:00:00Z")
			writeFile(t, filepath.Join(folder, "rollout-b.jsonl"), own+"\n"+fork+codexLines()[3]+"\n"+strings.ReplaceAll(codexLines()[len(codexLines())-2], "I give up.", "Once more."))
		}, rounds + 2, 2},
		"Codex, twice the same question": {func(t *testing.T, folder string) {
			t.Helper()
			lines := slices.Concat(codexLines()[:4], codexLines()[4+3*rounds:]) // without a call
			writeFile(t, filepath.Join(folder, "rollout-a.jsonl"), strings.Join(lines, "\n"))
			writeFile(t, filepath.Join(folder, "rollout-b.jsonl"), strings.ReplaceAll(strings.Join(lines, "\n"), "7f", "8a"))
		}, 2, 2},
		"opencode, forked": {func(t *testing.T, folder string) {
			t.Helper()
			writeStorage(t, folder, "ses_1")
			writeStorage(t, folder, "ses_2")
		}, rounds + 1, 1},
		"opencode, taken over into its database": {func(t *testing.T, folder string) {
			t.Helper()
			writeStorage(t, folder, "ses_1")
			writeOpencode(t, filepath.Join(folder, "opencode.db"))
		}, rounds + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			c.write(t, folder)
			r := at(t, folder)
			if r.Spent.Requests != c.requests || r.Sessions != c.sessions {
				t.Errorf("%d requests in %d sessions, want %d in %d", r.Spent.Requests, r.Sessions, c.requests, c.sessions)
			}
			if name != "Codex, twice the same question" && (r.Looped == 0 || r.Loops[0].Requests != 6) {
				t.Errorf("loops %+v", r.Loops)
			}
		})
	}
}

// What agents do beside a straight session: each part is a request of its own history.
func TestSessionsWithSubAgentsAndCompaction(t *testing.T) {
	t.Parallel()
	claude := func(lines []string) string { return strings.Join(lines, "\n") }
	spaced := strings.NewReplacer(`":`, `": `, `,"`, `, "`)
	side := strings.NewReplacer(`"isSidechain":false`, `"isSidechain":true,"agentId":"a1"`, `"id":"msg_`, `"id":"side_`)
	for name, c := range map[string]struct {
		file, text string
		// requests are those of all sessions.
		requests, sessions, looped int
	}{
		"Claude Code, a sub-agent in lines of the same file": {"s.jsonl", claude(interleaved(claudeLines(), side)), 2 * (rounds + 1), 2, 2},
		"Claude Code, a sub-agent's own file":                {"agent-a1.jsonl", side.Replace(claude(claudeLines())), rounds + 1, 1, 1},
		"Claude Code, spaces in its JSON":                    {"s.jsonl", spaced.Replace(claude(claudeLines())), rounds + 1, 1, 1},
		"Claude Code, compacted after each second round":     {"s.jsonl", claude(compacted(claudeLines(), 3, `{"parentUuid":null,"type":"user","isCompactSummary":true,"sessionId":"0d1c","timestamp":%q,"message":{"role":"user","content":"The tests of part %d fail."}}`)), rounds + 1, 1, 0},
		"Codex, compacted after each second round":           {"rollout-1.jsonl", claude(compacted(codexLines(), 4, `{"timestamp":%q,"type":"compacted","payload":{"message":"The tests of part %d fail."}}`)), rounds + 1, 1, 0},
		"Copilot CLI, compacted after each second round":     {"events.jsonl", claude(compacted(copilotLines(), 2, `{"type":"session.compaction_complete","timestamp":%q,"data":{"success":true,"summaryContent":"The tests of part %d fail."}}`)), rounds + 1, 1, 0},
		"Copilot CLI, a sub-agent":                           {"events.jsonl", claude(delegated()), rounds + 3, 2, 1},
		"Gemini CLI, a document":                             {"session-1.json", geminiDocument(), rounds + 1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			writeFile(t, filepath.Join(folder, c.file), c.text)
			r := at(t, folder)
			if r.Spent.Requests != c.requests || r.Sessions != c.sessions || r.Looped != c.looped || r.Spent.Estimated > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// interleaved returns lines with those of another agent between them.
func interleaved(lines []string, other *strings.Replacer) (out []string) {
	for _, line := range lines {
		out = append(out, line, other.Replace(line))
	}
	return out
}

// compacted returns lines with a summary, of a time and a number, before each second round.
// The rounds begin at a line and have three lines each.
func compacted(lines []string, begin int, summary string) (out []string) {
	for i, line := range lines {
		if n := i - begin; n > 0 && n%6 == 0 && n < 3*rounds {
			out = append(out, fmt.Sprintf(summary, stamp(n/6*4), n))
		}
		out = append(out, line)
	}
	return out
}

// delegated returns a session of the Copilot CLI in which a sub-agent does the work.
func delegated() (out []string) {
	lines := copilotLines()
	line := func(kind, data string) string {
		return fmt.Sprintf(`{"type":%q,"data":%s,"id":"e","timestamp":%q}`, kind, data, stamp(1))
	}
	const usage = `{"inputTokens":1000,"outputTokens":20}`
	out = append(out, lines[0], lines[1],
		line("assistant.message", `{"messageId":"d","content":"","toolRequests":[{"toolCallId":"task1","name":"task","arguments":{"prompt":"Make the tests pass."}}]}`), line("assistant.usage", usage))
	for _, l := range lines[2:] {
		out = append(out, strings.Replace(l, `"data":{`, `"data":{"parentToolCallId":"task1",`, 1))
	}
	return append(out, line("tool.execution_complete", `{"toolCallId":"task1","success":true,"result":{"content":"It gave up."}}`),
		line("assistant.message", `{"messageId":"z","content":"It failed."}`), line("assistant.usage", usage))
}

// geminiDocument returns a chat as earlier versions of the Gemini CLI kept it: one document.
func geminiDocument() string {
	var messages []string
	for _, line := range geminiLines()[1:] {
		if strings.Contains(line, "$set") || strings.Contains(line, `"id":"m`) && !strings.Contains(line, "toolCalls") {
			continue // each message stands there once
		}
		messages = append(messages, line)
	}
	return `{"sessionId":"3a","projectHash":"20","startTime":"2026-03-02T09:00:00Z","lastUpdated":"2026-03-02T09:03:00Z","messages":[` + strings.Join(messages, ",") + `]}`
}

// Claude Code may write the calls of one answer before and behind a result of it.
func TestCallsBehindAResultBelongToTheirAnswer(t *testing.T) {
	t.Parallel()
	lines := claudeLines()[:2]
	for i := range 4 {
		line := func(message, kind string) string {
			return fmt.Sprintf(`{"parentUuid":null,"type":%q,"message":%s,"timestamp":%q,"sessionId":"0d1c"}`, kind, message, stamp(i+1))
		}
		for k := range 2 {
			lines = append(lines,
				line(fmt.Sprintf(`{"id":"msg_%d","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"t%d%d","name":"Bash","input":{"command":"npm test %d"}}],"usage":{"input_tokens":100,"output_tokens":20}}`, i, i, k, k), "assistant"),
				line(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d%d","content":"1 failed","is_error":true}]}`, i, k), "user"))
		}
	}
	path := filepath.Join(t.TempDir(), "s.jsonl")
	writeFile(t, path, strings.Join(lines, "\n"))
	turns, _ := whole(t, File{Path: path, Agent: agents.All[0]})
	if len(turns) != 4 {
		t.Fatalf("%d requests, want one for each answer", len(turns))
	}
	calls, results := 0, 0
	for _, m := range turns[3] {
		for _, b := range m.Content {
			if b.Type == "tool_use" {
				calls++
			}
			if b.Type == "tool_result" {
				results++
			}
		}
	}
	if calls != 6 || results != 6 {
		t.Errorf("%d calls and %d results, want 6 of each", calls, results)
	}
}
