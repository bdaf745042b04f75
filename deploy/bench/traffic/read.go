package traffic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	// maxBody is the largest body of a session that is sent.
	maxBody = 64 << 10
	// minTurns is the smallest number of requests of a session. A question and its answer
	// are not an agent's session.
	minTurns = 4
)

// ErrNoSessions is the error for files without a session that can be sent.
var ErrNoSessions = errors.New("no session of at least four requests")

// recording is a session in a file.
type recording struct {
	Model string `json:"model"`
	// Label is "stuck" for a session that loops. Such a session is left out: most of
	// its requests would be refused.
	Label    string    `json:"label"`
	Messages []message `json:"messages"`
}

// Read returns the sessions in files, and in the .json and .jsonl files of folders. A file has
// one session after another: an object with OpenAI messages, or just their list.
func Read(paths ...string) (out []Session, err error) {
	for _, path := range paths {
		files, err := filepath.Glob(filepath.Join(path, "*.json*"))
		if err != nil || len(files) == 0 {
			files = []string{path} // which is no folder
		}
		for _, file := range files {
			if out, err = readFile(out, file); err != nil {
				return nil, err
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w in %q", ErrNoSessions, paths)
	}
	return out, nil
}

// readFile appends the sessions of a file that can be sent.
func readFile(out []Session, file string) ([]Session, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	for all := json.NewDecoder(in); ; {
		var text json.RawMessage
		if err := all.Decode(&text); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("read sessions in %s: %w", file, err)
		}
		var r recording
		if err := json.Unmarshal(text, &r); err != nil && json.Unmarshal(text, &r.Messages) != nil {
			return nil, fmt.Errorf("read a session of OpenAI messages that ends at byte %d of %s: %w", all.InputOffset(), file, err)
		}
		s, err := newSession(cmp.Or(r.Model, "gpt-5"), r.Messages, 0, maxBody)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if r.Label != "stuck" && len(s) >= minTurns {
			out = append(out, s)
		}
	}
}
