package toolloop_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// oldState has a session as version 1 first stored it, in hexadecimal: three
// occurrences of a call that was warned of, and a message before them.
const oldState = "state-v1.hex"

// newState has the same session as it is stored now.
const newState = "state-v2.hex"

func stored(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// oldRounds are rounds with results as fingerprints of version 1 had them, which
// the stored session has.
func oldRounds(words ...string) []toolloop.Item {
	items := rounds(words...)
	for i, w := range words {
		_, result, _ := strings.Cut(w, ":")
		var b []byte
		for _, field := range []string{"unloop/result/1", result} {
			b = append(binary.BigEndian.AppendUint64(b, uint64(len(field))), field...)
		}
		sum := sha256.Sum256(b)
		items[i].Calls[0].Result = fingerprint.Digest(sum[:16])
	}
	return items
}

func storedSession(t *testing.T) (s *session, history []toolloop.Item) {
	history = join([]toolloop.Item{human("go")}, oldRounds("X:1"), repeat(3, oldRounds("A:same")...))
	s = newSession(t)
	s.grow(history)
	return s, history
}

func TestAnOldStateStaysReadable(t *testing.T) {
	t.Parallel()
	_, history := storedSession(t)
	s := newSession(t)
	if err := s.state.Parse(stored(t, oldState)); err != nil {
		t.Fatal(err)
	}
	if got := s.explain().Detections; len(got) != 1 || got[0].Rule != finding.Repeat || got[0].Count != 3 {
		t.Errorf("what stands is %+v", got)
	}
	wantLast(t, []toolloop.Level{
		fresh(s.request(history)),
		fresh(s.request(append(history, oldRounds("A:same")...))),
		fresh(s.request(append(history, oldRounds("A:same", "A:same")...))),
	}, allow, warn, block)
}

func TestTheStoredFormHasNotChanged(t *testing.T) {
	t.Parallel()
	s, _ := storedSession(t)
	b := s.state.Append(nil)
	if !bytes.Equal(b, stored(t, newState)) {
		t.Errorf("a state is stored as\n%x\n%s has another form: keep that one readable, and add this one beside it", b, newState)
	}
}

func TestSectionsOfANewerVersionAreSkipped(t *testing.T) {
	t.Parallel()
	b := append(stored(t, oldState), 99, 0, 3, 'n', 'e', 'w')
	var s toolloop.State
	if err := s.Parse(b); err != nil {
		t.Fatal(err)
	}
	if s.Stats().Total != 4 {
		t.Errorf("stats are %+v", s.Stats())
	}
}

func TestMissingSectionsAreEmpty(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{nil, {}, {1}} {
		var s toolloop.State
		if err := s.Parse(b); err != nil {
			t.Errorf("%v: %v", b, err)
		}
		if !s.IsZero() {
			t.Errorf("%v is not empty", b)
		}
	}
}

func TestWhatIsNoStateIsAnError(t *testing.T) {
	t.Parallel()
	whole := stored(t, oldState)
	for name, b := range map[string][]byte{
		"another version": {2, 1, 1, 0}, "text": []byte(`{"version":1}`), "cut off": whole[:len(whole)-3], "a length beyond the end": {1, 1, 0xff, 0xff, 0},
	} {
		s := toolloop.State{}
		if err := s.Parse(b); !errors.Is(err, toolloop.ErrState) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte{1})
	f.Add(stored(f, newState))
	f.Add([]byte("\x01\x01\x00\x02\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newSession(t)
		if s.state.Parse(b) != nil {
			return
		}
		first := s.state.Append(nil)
		if err := s.state.Parse(first); err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		s.request(join([]toolloop.Item{human("go")}, rounds("A:1", "A:1", "B:2")))
		s.check(call("A", ""))
		s.result(call("A", "1"))
		s.shared.Own = false
		s.request(rounds("A:1"))
		s.state.Stats()
		for _, finding := range s.explain().Detections {
			_ = said(finding, "hint")
		}
	})
}
