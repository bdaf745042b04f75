package agents

import (
	"bytes"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// claude is Claude Code. It writes a line for each message, but for an answer one for each block,
// all with the answer's id and usage. Sub-agents have separate files or, in earlier versions,
// lines marked as a side chain.
var claude = Agent{
	Name: "claude", Title: "Claude Code", Guard: "unloop exec -- claude",
	Folders: []string{".claude/projects"}, Env: "CLAUDE_CONFIG_DIR",
	Keeps: func(path string) bool { return filepath.Ext(path) == ".jsonl" },
	Recognizes: func(_ string, begin []byte) bool {
		return bytes.Contains(begin, []byte(`"sessionId"`)) && bytes.Contains(begin, []byte(`"parentUuid"`))
	},
	Read: func(path, _ string) iter.Seq2[Step, error] {
		return lines(path, func(line []byte, _ int, yield func(Step) bool) error { return readClaude(line, yield) })
	},
}

type claudeLine struct {
	Type        string        `json:"type"`
	Session     string        `json:"sessionId"`
	Agent       string        `json:"agentId"`
	Sidechain   bool          `json:"isSidechain"`
	Summary     bool          `json:"isCompactSummary"`
	Timestamp   time.Time     `json:"timestamp"`
	Message     claudeMessage `json:"message"`
	APIErrorSet bool          `json:"isApiErrorMessage"`
}

type claudeMessage struct {
	ID      string        `json:"id"`
	Model   string        `json:"model"`
	Content claudeContent `json:"content"`
	Usage   struct {
		Input    int `json:"input_tokens"`
		Output   int `json:"output_tokens"`
		Creation int `json:"cache_creation_input_tokens"`
		Read     int `json:"cache_read_input_tokens"`
		Written  struct {
			Hour int `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
	} `json:"usage"`
}

type claudeBlock struct {
	Type    string         `json:"type"`
	Text    string         `json:"text"`
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Input   jsontext.Value `json:"input"`
	Result  string         `json:"tool_use_id"`
	Content result         `json:"content"`
	Failed  bool           `json:"is_error"`
}

// claudeContent reads a content that is a string as a block with a text.
type claudeContent []claudeBlock

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *claudeContent) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		return json.UnmarshalDecode(d, (*[]claudeBlock)(c))
	}
	*c = claudeContent{{Type: "text"}}
	return json.UnmarshalDecode(d, &(*c)[0].Text)
}

// errCut is the error for an incomplete line.
var errCut = errors.New("the line was cut off")

func readClaude(line []byte, yield func(Step) bool) error {
	if !bytes.Contains(line, []byte(`"message"`)) {
		if !bytes.HasSuffix(line, []byte("}")) {
			return errCut
		}
		return nil
	}
	var l claudeLine
	if err := decode(line, &l); err != nil {
		return err
	}
	if l.Type != "user" && l.Type != "assistant" || l.APIErrorSet {
		return nil
	}
	step := Step{Session: l.Session, Time: l.Timestamp}
	if l.Sidechain || l.Agent != "" {
		step.Session += "/" + l.Agent
	}
	if l.Type == "assistant" {
		yield(claudeAnswer(step, &l.Message))
		return nil
	}
	var said string
	for _, b := range l.Message.Content {
		if b.Type == "tool_result" {
			s := step
			s.Kind, s.ID, s.Text, s.Quoted, s.Failed = Returned, b.Result, string(b.Content.text), b.Content.quoted, b.Failed
			if !yield(s) {
				return nil
			}
		}
		if b.Type == "text" {
			said = strings.TrimPrefix(said+"\n"+b.Text, "\n")
		}
	}
	if said != "" {
		step.Kind, step.Text = Said, said
		if l.Summary {
			step.Kind = Compacted
		}
		yield(step)
	}
	return nil
}

func claudeAnswer(step Step, m *claudeMessage) Step {
	step.Kind, step.ID, step.Origin, step.Model = Answered, m.ID, m.ID, m.Model
	u := m.Usage
	hour := min(u.Written.Hour, u.Creation)
	step.Usage = Usage{Input: u.Input + u.Creation + u.Read, Cached: u.Read, Written: u.Creation - hour, WrittenHour: hour, Output: u.Output}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			step.Text += b.Text
		case "tool_use":
			step.Calls = append(step.Calls, Call{b.ID, b.Name, b.Input})
		}
	}
	return step
}
