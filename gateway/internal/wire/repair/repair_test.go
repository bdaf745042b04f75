package repair_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
)

// A history is written a line a message: "U" or "A" and its parts. A word is text,
// "x()" is a call with the id x, "x=1" is the result 1 of the call x.
type history []string

type object = map[string]any

// parts of one line.
type parts struct {
	role    string
	ordered []any // Anthropic blocks
	texts   []string
	calls   []any // of Chat Completions
	stuck   []any // all content parts of Chat Completions
	tools   []any // messages, in order, of Chat Completions
	results int
}

func read(line string) parts {
	role, rest, _ := strings.Cut(line, " ")
	p := parts{role: map[string]string{"U": "user", "A": "assistant"}[role]}
	for word := range strings.SplitSeq(rest, " ") {
		id, value, result := strings.Cut(word, "=")
		call, isCall := strings.CutSuffix(word, "()")
		switch {
		case isCall:
			p.ordered = append(p.ordered, object{"type": "tool_use", "id": call, "name": "f", "input": object{}})
			p.calls = append(p.calls, object{"id": call, "type": "function", "function": object{"name": "f", "arguments": "{}"}})
		case result:
			value = strings.ReplaceAll(value, "_", " ")
			p.results++
			p.ordered = append(p.ordered, object{"type": "tool_result", "tool_use_id": id, "content": value})
			p.tools = append(p.tools, object{"role": "tool", "tool_call_id": id, "content": value})
			p.stuck = append(p.stuck, object{"type": "tool_result", "tool_call_id": id, "content": value})
		default:
			p.texts = append(p.texts, word)
			p.ordered = append(p.ordered, object{"type": "text", "text": word})
			p.tools = append(p.tools, object{"role": "user", "content": word})
			p.stuck = append(p.stuck, object{"type": "text", "text": word})
		}
	}
	return p
}

func encode(list []any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object{"model": "m", "messages": list}); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func asAnthropic(h history) []byte {
	list := []any{}
	for _, line := range h {
		p := read(line)
		var content any = p.ordered
		if len(p.ordered) == 1 && len(p.texts) == 1 {
			content = p.texts[0]
		}
		list = append(list, object{"role": p.role, "content": content})
	}
	return encode(list)
}

func asChat(h history) []byte {
	list := []any{}
	for _, line := range h {
		p := read(line)
		switch {
		case p.role == "user":
			list = append(list, p.tools...)
		case p.results == 0 && len(p.texts) <= 1:
			list = append(list, object{"role": p.role, "content": strings.Join(p.texts, ""), "tool_calls": p.calls})
		default:
			list = append(list, object{"role": p.role, "content": p.stuck, "tool_calls": p.calls})
		}
	}
	return encode(list)
}

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []block         `json:"tool_calls"`
}

type block struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	ID        string `json:"id"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content"`
}

// events lists what a body says in the order in which the model reads it: "U
// text", "A text", "call x", "x=1".
func events(t *testing.T, body []byte) (out []string) {
	t.Helper()
	var b struct{ Messages []message }
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, m := range b.Messages {
		blocks := m.ToolCalls
		var text string
		if m.Role == "tool" {
			if err := json.Unmarshal(m.Content, &text); err != nil {
				t.Fatal(err)
			}
			blocks, text = []block{{Type: "tool_result", ToolUseID: m.ToolCallID, Content: text}}, ""
		} else if len(m.Content) > 0 && m.Content[0] == '[' {
			var content []block
			if err := json.Unmarshal(m.Content, &content); err != nil {
				t.Fatal(err)
			}
			blocks = append(content, blocks...)
		} else if err := json.Unmarshal(m.Content, &text); err != nil {
			t.Fatal(err)
		}
		out = append(out, messageEvents(m.Role, text, blocks)...)
	}
	return out
}

func messageEvents(role, text string, blocks []block) (out []string) {
	var texts, calls []string
	if text != "" {
		texts = append(texts, text)
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			if b.Text != "" {
				texts = append(texts, b.Text)
			}
		case "tool_result":
			out = append(out, b.ToolUseID+"="+b.Content)
		default:
			calls = append(calls, "call "+b.ID)
		}
	}
	if len(texts) > 0 {
		out = append(out, strings.ToUpper(role[:1])+" "+strings.Join(texts, "\n\n"))
	}
	return append(out, calls...)
}

const lost = "[Tool execution was interrupted or lost]"

var cases = []struct {
	name    string
	history history
	want    []string
	report  repair.Report
	// chat is the report for Chat Completions, where it is another.
	chat *repair.Report
}{
	{"three messages stay", history{"U hi", "A hello", "U bye"}, []string{"U hi", "A hello", "U bye"}, repair.Report{}, nil},
	{"a tool pair stays", history{"U hi", "A x()", "U x=1", "A done"}, []string{"U hi", "call x", "x=1", "A done"}, repair.Report{}, nil},
	{"parallel results may come in any order", history{"U hi", "A x() y()", "U y=2 x=1", "A done"},
		[]string{"U hi", "call x", "call y", "y=2", "x=1", "A done"}, repair.Report{}, nil},
	{"parallel results may come in several messages", history{"U hi", "A x() y()", "U y=2", "U x=1", "A done"},
		[]string{"U hi", "call x", "call y", "y=2", "x=1", "A done"}, repair.Report{}, nil},
	{"an orphan result goes", history{"U hi", "A hello", "U x=1", "A bye"}, []string{"U hi", "A hello", "A bye"}, repair.Report{Orphans: 1}, nil},
	{"two orphans of one message go", history{"U hi", "A hello", "U x=1 y=2", "U on"}, []string{"U hi", "A hello", "U on"}, repair.Report{Orphans: 2}, nil},
	{"two messages of a user stay", history{"U hi", "U there"}, []string{"U hi", "U there"}, repair.Report{}, nil},
	{"two messages of the model stay", history{"U hi", "A so", "A there", "U on"}, []string{"U hi", "A so", "A there", "U on"}, repair.Report{}, nil},
	{"a greeting at the beginning stays", history{"A hello", "U hi"}, []string{"A hello", "U hi"}, repair.Report{}, nil},
	{"an empty message goes where it is refused", history{"U hi", "A hello", "U ", "A bye"}, []string{"U hi", "A hello", "A bye"}, repair.Report{Empty: 1}, &repair.Report{}},
	{"an empty message alone stays", history{"U "}, nil, repair.Report{}, nil},
	{"an empty text beside a call goes where it is refused", history{"U hi", "A  x()", "U x=1"}, []string{"U hi", "call x", "x=1"}, repair.Report{Empty: 1}, &repair.Report{}},
	{"a late result is moved, and is the real one", history{"U hi", "A x()", "U wait", "A ok", "U x=1"},
		[]string{"U hi", "call x", "x=1", "U wait", "A ok"}, repair.Report{Moved: 1}, nil},
	{"of two results the first stays", history{"U hi", "A x()", "U x=1 x=2"}, []string{"U hi", "call x", "x=1"}, repair.Report{Duplicates: 1}, nil},
	{"a final result beats a pending one", history{"U hi", "A x()", "U x=pending", "A ok", "U x=1"},
		[]string{"U hi", "call x", "x=1", "A ok"}, repair.Report{Duplicates: 1}, nil},
	{"one result lost, one orphan, one empty", history{"U hi", "A x() y()", "U x=1 z=3", "U ", "A done"},
		[]string{"U hi", "call x", "call y", "x=1", "y=" + lost, "A done"}, repair.Report{Orphans: 1, Synthetic: 1, Empty: 1}, &repair.Report{Orphans: 1, Synthetic: 1}},
	{"a result in the model's message is moved out", history{"U hi", "A x() x=1", "A done"},
		[]string{"U hi", "call x", "x=1", "A done"}, repair.Report{Rescued: 1}, nil},
	{"a result in the model's message without a call goes", history{"U hi", "A hello x=1", "U bye"},
		[]string{"U hi", "A hello", "U bye"}, repair.Report{Orphans: 1}, nil},
	{"an id used twice is two calls", history{"U hi", "A x()", "U x=1", "A x()", "U go"},
		[]string{"U hi", "call x", "x=1", "call x", "x=" + lost, "U go"}, repair.Report{Synthetic: 1}, nil},
	{"a lost result stands before the user's text", history{"U hi", "A x()", "U go"},
		[]string{"U hi", "call x", "x=" + lost, "U go"}, repair.Report{Synthetic: 1}, nil},
	{"a lost result stands behind those that came", history{"U hi", "A x() y()", "U x=1", "U go"},
		[]string{"U hi", "call x", "call y", "x=1", "y=" + lost, "U go"}, repair.Report{Synthetic: 1}, nil},
	{"pairs stay apart", history{"A x()", "U x=1", "A y()", "U y=2"}, []string{"call x", "x=1", "call y", "y=2"}, repair.Report{}, nil},
	{"what stands before the first human stays", history{"A hello", "A x()", "U x=1", "U hi", "A bye"},
		[]string{"A hello", "call x", "x=1", "U hi", "A bye"}, repair.Report{}, nil},
	{"a call at the end gets a result", history{"U hi", "A x()"}, []string{"U hi", "call x", "x=" + lost}, repair.Report{Synthetic: 1}, nil},
	{"orphans alone stay", history{"U x=1"}, []string{"x=1"}, repair.Report{}, nil},
}

type repairer interface {
	Repair(body []byte) ([]byte, repair.Report, error)
}

func TestHistoriesAreMended(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name, f := range map[string]struct {
				repairer
				write func(history) []byte
			}{"anthropic": {anthropic.Messages{}, asAnthropic}, "chat": {chat.Chat{}, asChat}} {
				body := f.write(c.history)
				got, report, err := f.Repair(body)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, events(t, got)); diff != "" {
					t.Errorf("%s: %s\n%s", name, diff, got)
				}
				want := c.report
				if name == "chat" && c.chat != nil {
					want = *c.chat
				}
				if report != want {
					t.Errorf("%s: %v, want %v", name, report, want)
				}
				if !want.Changed() && &got[0] != &body[0] {
					t.Errorf("%s: an untouched body was copied", name)
				}
			}
		})
	}
}
