package traffic

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

const (
	// maxBody is the largest body of a session that is sent.
	maxBody = 64 << 10
	// minTurns is the least number of requests of a session: one question with its
	// answer is no session of an agent.
	minTurns = 4
	maxLine  = 32 << 20
)

// ErrNoSessions says that files have no session that can be sent.
var ErrNoSessions = errors.New("no session of at least four requests")

// recording is a session in a file.
type recording struct {
	Model string `json:"model"`
	// Label is "stuck" for a session that loops. Such a session is left out: most of
	// its requests would be refused.
	Label    string    `json:"label"`
	Messages []message `json:"messages"`
}

// Read returns the sessions of files and of folders with files: .jsonl with a session on
// each line, .json with one. A session is an object with OpenAI's messages, or the list
// of them alone.
func Read(paths ...string) ([]Session, error) {
	var out []Session
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			sessions, err := readFile(file)
			if err != nil {
				return nil, err
			}
			out = append(out, sessions...)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w in %q", ErrNoSessions, paths)
	}
	return out, nil
}

func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	for _, pattern := range []string{"*.jsonl", "*.json"} {
		found, err := filepath.Glob(filepath.Join(path, pattern))
		if err != nil {
			return nil, fmt.Errorf("read sessions in %s: %w", path, err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return files, nil
}

func readFile(file string) ([]Session, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	if filepath.Ext(file) == ".json" {
		return readOne(nil, file, data)
	}
	var out []Session
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if out, err = readOne(out, fmt.Sprintf("%s, line %d", file, n), lines.Bytes()); err != nil {
			return nil, err
		}
	}
	return out, lines.Err()
}

// readOne appends a recorded session, if it is to be sent.
func readOne(out []Session, where string, data []byte) ([]Session, error) {
	var r recording
	err := json.Unmarshal(data, &r)
	if err != nil && json.Unmarshal(data, &r.Messages) != nil {
		return nil, fmt.Errorf("read a session of OpenAI messages from %s: %w", where, err)
	}
	if r.Label == "stuck" {
		return out, nil
	}
	s, err := newSession(cmp.Or(r.Model, "gpt-5"), r.Messages, 0, maxBody)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	if len(s.Turns) < minTurns {
		return out, nil
	}
	return append(out, s), nil
}
