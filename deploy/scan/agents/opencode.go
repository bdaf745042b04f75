package agents

import (
	"bytes"
	"fmt"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/ncruces/go-sqlite3"
)

// opencode stores its sessions in a SQLite database. Earlier versions had a file for each
// session, message and part below a folder named storage, and later ones leave these files there.
var opencode = Agent{
	Name: "opencode", Title: "opencode", Guard: "unloop exec -- opencode",
	Folders: []string{".local/share/opencode"}, Env: "",
	Keeps: func(path string) bool {
		name := filepath.Base(path)
		return strings.HasPrefix(name, "opencode") && filepath.Ext(name) == ".db" || isStored(path, "session")
	},
	Recognizes: func(name string, begin []byte) bool {
		return bytes.HasPrefix(begin, []byte("SQLite format 3\x00")) || strings.HasPrefix(name, "ses_") && bytes.Contains(begin, []byte(`"projectID"`))
	},
	Parts: opencodeParts,
	Read: func(path, part string) iter.Seq2[Step, error] {
		return func(yield func(Step, error) bool) {
			r := opencodeReader{yield: yield}
			read := r.database
			if filepath.Ext(path) == ".json" {
				read = r.storage
			}
			if err := read(path, part); err != nil && !r.done {
				yield(Step{}, err)
			}
		}
	},
}

// isStored reports whether a path is a file of a kind in opencode's storage.
func isStored(path, kind string) bool {
	folder := filepath.Dir(filepath.Dir(path))
	return filepath.Ext(path) == ".json" && filepath.Base(folder) == kind && filepath.Base(filepath.Dir(folder)) == "storage"
}

// IsPiece reports whether a file has only a piece of a session.
func IsPiece(path string) bool { return isStored(path, "message") || isStored(path, "part") }

// opencodeMessages is the number of messages after which a part of a database ends with its session.
const opencodeMessages = 2000

// opencodeParts returns parts of whole sessions, named by the sessions' ids.
func opencodeParts(path string) (parts []Part, err error) {
	if filepath.Ext(path) == ".json" {
		return nil, nil
	}
	db, err := openDatabase(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it was only read
	rows, _, err := db.Prepare(`SELECT session_id, count(*) FROM message GROUP BY session_id ORDER BY session_id`)
	if err != nil {
		return nil, fmt.Errorf("read the database: %w", err)
	}
	defer func() { _ = rows.Close() }() // its error is rows.Err's
	all, n := 0, 0
	var ids []string
	end := func() {
		if n > 0 {
			parts = append(parts, Part{strings.Join(ids, " "), float64(n)})
		}
		all, ids, n = all+n, nil, 0
	}
	for rows.Step() {
		if ids, n = append(ids, rows.ColumnText(0)), n+rows.ColumnInt(1); n >= opencodeMessages {
			end()
		}
	}
	end()
	for i := range parts {
		parts[i].Share /= float64(all)
	}
	return parts, rows.Err()
}

func openDatabase(path string) (*sqlite3.Conn, error) {
	db, err := sqlite3.OpenFlags("file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro", sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return db, nil
}

type opencodeMessage struct {
	Role    string         `json:"role"`
	Model   string         `json:"modelID"`
	Summary jsontext.Value `json:"summary"` // true for an answer that replaces what was said before
	Time    struct {
		Created int64 `json:"created"`
	} `json:"time"`
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
		Status string         `json:"status"`
		Input  jsontext.Value `json:"input"`
		Output string         `json:"output"`
		Error  string         `json:"error"`
		Time   struct {
			Start int64 `json:"start"`
			End   int64 `json:"end"`
		} `json:"time"`
	} `json:"state"`
}

// opencodeReader reads sessions, a message at a time.
type opencodeReader struct {
	yield  func(Step, error) bool
	done   bool
	answer int // number of the answer in its message, which has one for each step
}

// send yields steps, or an error in the place of one.
func (r *opencodeReader) send(err error, steps ...Step) {
	if err != nil {
		r.done = r.done || !r.yield(Step{}, err)
	}
	for _, s := range steps {
		r.done = r.done || !r.yield(s, nil)
	}
}

// database reads sessions of a database without writing to it.
func (r *opencodeReader) database(path, part string) error {
	db, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it was only read
	messages, _, err := db.Prepare(`SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id`)
	if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	defer func() { _ = messages.Close() }() // its error is messages.Err's
	parts, _, err := db.Prepare(`SELECT id, data FROM part WHERE message_id = ? ORDER BY id`)
	if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	defer func() { _ = parts.Close() }() // its error is parts.Err's
	for id := range strings.FieldsSeq(part) {
		err := r.rows(messages, id, func(message string, data []byte) error {
			m, err := r.message(data)
			if err != nil {
				return err
			}
			return r.rows(parts, message, func(_ string, data []byte) error { return r.part(id, &m, data) })
		})
		if r.send(nil, Step{Kind: Ended, Session: id}); err != nil || r.done {
			return err
		}
	}
	return nil
}

// rows calls read with each row of a query for an id, and yields its errors.
func (r *opencodeReader) rows(query *sqlite3.Stmt, of string, read func(id string, data []byte) error) error {
	if err := query.BindText(1, of); err != nil {
		return err
	}
	for !r.done && query.Step() {
		if err := read(query.ColumnText(0), query.ColumnRawText(1)); err != nil {
			r.send(err)
		}
	}
	if err := query.Err(); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	return query.Reset()
}

// storage reads the session that a file names.
func (r *opencodeReader) storage(path, _ string) error {
	id, root := strings.TrimSuffix(filepath.Base(path), ".json"), filepath.Dir(filepath.Dir(filepath.Dir(path)))
	return r.stored(filepath.Join(root, "message", id), func(message string, data []byte) error {
		m, err := r.message(data)
		if err != nil {
			return err
		}
		err = r.stored(filepath.Join(root, "part", message), func(_ string, data []byte) error { return r.part(id, &m, data) })
		if os.IsNotExist(err) { // a message may have no parts
			return nil
		}
		return err
	})
}

// stored calls read with each file of a folder, in the order of their names, which are ids.
func (r *opencodeReader) stored(folder string, read func(id string, data []byte) error) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, f := range files {
		id, isJSON := strings.CutSuffix(f.Name(), ".json")
		if r.done || !isJSON {
			continue
		}
		data, err := readFile(filepath.Join(folder, f.Name()))
		if err == nil {
			err = read(id, data)
		}
		if err != nil {
			r.send(err)
		}
	}
	return nil
}

// message reads a message, and begins to count its answers.
func (r *opencodeReader) message(data []byte) (m opencodeMessage, err error) {
	r.answer = 0
	return m, decode(data, &m)
}

// part yields the steps of a part of a message. A forked session has copies of messages with
// their times, under new ids.
func (r *opencodeReader) part(session string, m *opencodeMessage, data []byte) error {
	var p opencodePart
	if err := decode(data, &p); err != nil {
		return err
	}
	step := Step{Session: session, Time: time.UnixMilli(m.Time.Created), Model: m.Model, Kind: Answered}
	switch {
	case m.Role == "user" && p.Type == "text":
		step.Kind, step.Text = Said, p.Text
	case m.Role == "user":
		return nil
	case string(m.Summary) == "true" && p.Type == "text":
		step.Kind, step.Text = Compacted, p.Text
	case p.Type == "step-start":
		r.answer++
		return nil
	case p.Type == "text":
		step.Text = p.Text
	case p.Type == "step-finish" && p.Usage != nil:
		u := p.Usage
		step.Usage = Usage{Input: u.Input + u.Cache.Read + u.Cache.Write, Cached: u.Cache.Read, Written: u.Cache.Write, Output: u.Output + u.Reasoning, USD: p.Cost}
	case p.Type == "tool":
		step.Calls = []Call{{p.CallID, p.Tool, p.State.Input}}
		if p.State.Time.Start > 0 {
			step.Time = time.UnixMilli(p.State.Time.Start)
		}
	default:
		return nil
	}
	if step.Kind == Answered {
		step.ID = fmt.Sprintf("%s/%d/%d", session, m.Time.Created, r.answer)
		step.Origin = fmt.Sprintf("%d/%d/%s%s", m.Time.Created, r.answer, p.CallID, p.Text)
	}
	r.send(nil, step)
	if p.Type == "tool" {
		r.send(nil, Step{Kind: Returned, Session: session, Time: time.UnixMilli(p.State.Time.End), ID: p.CallID, Text: p.State.Output + p.State.Error, Failed: p.State.Status == "error"})
	}
	return nil
}
