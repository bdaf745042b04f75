package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// opencode keeps all sessions in one SQLite database.
var opencode = Agent{
	Name: "opencode", Title: "opencode", Guard: "unloop exec -- opencode",
	Folders: []string{".local/share/opencode"}, Env: "",
	Keeps:      func(path string) bool { return filepath.Base(path) == "opencode.db" },
	Recognizes: func(_ string, begin []byte) bool { return bytes.HasPrefix(begin, []byte("SQLite format 3\x00")) },
	Read: func(path string) iter.Seq2[Step, error] {
		return func(yield func(Step, error) bool) {
			if err := readOpencode(path, func(s Step) bool { return yield(s, nil) }); err != nil {
				yield(Step{}, err)
			}
		}
	},
}

type opencodeMessage struct {
	Role  string `json:"role"`
	Model string `json:"modelID"`
}

type opencodeTokens struct {
	Input     int `json:"input"`
	Output    int `json:"output"`
	Reasoning int `json:"reasoning"`
	Cache     struct {
		Read  int `json:"read"`
		Write int `json:"write"`
	} `json:"cache"`
}

type opencodePart struct {
	Type   string          `json:"type"`
	Text   string          `json:"text"`
	Tool   string          `json:"tool"`
	CallID string          `json:"callID"`
	Cost   float64         `json:"cost"`
	Usage  *opencodeTokens `json:"tokens"`
	State  struct {
		Status string          `json:"status"`
		Input  json.RawMessage `json:"input"`
		Output string          `json:"output"`
		Error  string          `json:"error"`
		Time   struct {
			End int64 `json:"end"`
		} `json:"time"`
	} `json:"state"`
}

// readOpencode reads the database, which nothing is written to, in the order of sessions.
func readOpencode(path string, yield func(Step) bool) error {
	db, err := sqlite3.OpenFlags("file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro", sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer func() { _ = db.Close() }() // it was only read
	rows, _, err := db.Prepare(`SELECT m.session_id, m.id, m.time_created, m.data, p.id, p.time_created, p.data
		FROM message m JOIN part p ON p.message_id = m.id ORDER BY m.session_id, m.time_created, m.id, p.id`)
	if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	defer func() { _ = rows.Close() }() // its error is rows.Err's
	r := opencodeReader{}
	for rows.Step() {
		var m opencodeMessage
		var p opencodePart
		if json.Unmarshal(rows.ColumnRawText(3), &m) != nil || json.Unmarshal(rows.ColumnRawText(6), &p) != nil {
			continue
		}
		for _, s := range r.steps(rows.ColumnText(0), rows.ColumnText(1), time.UnixMilli(rows.ColumnInt64(5)), &m, &p) {
			if !yield(s) {
				return nil
			}
		}
	}
	return rows.Err()
}

// opencodeReader counts the answers of a message, which has one for each of its steps.
type opencodeReader struct {
	message string
	answer  int
}

func (r *opencodeReader) steps(session, message string, at time.Time, m *opencodeMessage, p *opencodePart) []Step {
	if r.message != message {
		r.message, r.answer = message, 0
	}
	step := Step{Session: session, Time: at, Model: m.Model, Kind: Answered}
	switch {
	case m.Role == "user" && p.Type == "text":
		step.Kind, step.Text = Said, p.Text
	case m.Role == "user":
		return nil
	case p.Type == "step-start":
		r.answer++
		return nil
	case p.Type == "text":
		step.Text = p.Text
	case p.Type == "step-finish" && p.Usage != nil:
		u := p.Usage
		step.Usage = Usage{Input: u.Input + u.Cache.Read + u.Cache.Write, Cached: u.Cache.Read, Output: u.Output + u.Reasoning, USD: p.Cost}
	case p.Type == "tool":
		step.Calls = []Call{{p.CallID, p.Tool, p.State.Input}}
	default:
		return nil
	}
	if step.Kind == Answered {
		step.ID = fmt.Sprintf("%s/%d", message, r.answer)
	}
	if p.Type != "tool" {
		return []Step{step}
	}
	result := Step{Kind: Returned, Session: session, Time: time.UnixMilli(p.State.Time.End), ID: p.CallID, Text: p.State.Output + p.State.Error, Failed: p.State.Status == "error"}
	return []Step{step, result}
}
