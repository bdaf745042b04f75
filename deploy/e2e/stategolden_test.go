package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	diff "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/deploy/unloop/backup"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/storepb"
)

// update adds a version of the golden state, if the form of the stored state has changed.
// Versions that are there stay as they are: they are what some server may have.
var update = flag.Bool("update", false, "add a version of the golden state if its form has changed")

// golden is a file in testdata/state: a line about it, and a line a message.
type golden struct {
	Version  int       `json:"version"`
	About    string    `json:"about"`
	At       time.Time `json:"at"`
	Messages []stored  `json:"-"`
}

// stored is a message of a stream or bucket, as text where it is text.
type stored struct {
	Subject string      `json:"subject"`
	Header  nats.Header `json:"header,omitempty"`
	Text    string      `json:"text,omitempty"`
	Bytes   []byte      `json:"bytes,omitempty"`
}

func (m stored) data() []byte {
	if m.Text != "" {
		return []byte(m.Text)
	}
	return m.Bytes
}

func stateFiles(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir("testdata/state")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		names = append(names, f.Name())
	}
	slices.Sort(names)
	return names
}

func readState(t *testing.T, name string) (g golden) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/state", name))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if g.Version == 0 {
			err = json.Unmarshal(lines.Bytes(), &g)
		} else {
			var m stored
			err = json.Unmarshal(lines.Bytes(), &m)
			g.Messages = append(g.Messages, m)
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, lines.Bytes())
		}
	}
	return g
}

func (g golden) write(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(g); err != nil {
		t.Fatal(err)
	}
	for _, m := range g.Messages {
		if err := enc.Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(fmt.Sprintf("testdata/state/%d.jsonl", g.Version), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, js jetstream.JetStream, m stored) {
	t.Helper()
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.data()}); err != nil {
		t.Fatalf("store %s: %v", m.Subject, err)
	}
}

// dump returns the messages of all streams. Of the headers it keeps those that a reader
// looks at.
func dump(t *testing.T, server *natstest.Server) (all []stored) {
	t.Helper()
	js := server.JetStream()
	for _, name := range backup.Streams(1) {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			continue // an older version has fewer
		}
		state := stream.CachedInfo().State
		for seq := state.FirstSeq; seq > 0 && seq <= state.LastSeq; seq++ {
			msg, err := stream.GetMsg(t.Context(), seq)
			if err != nil || strings.HasSuffix(msg.Subject, ".probe") || msg.Header.Get("KV-Operation") != "" {
				continue // it was replaced or removed
			}
			m := stored{Subject: msg.Subject, Header: nats.Header{}}
			for key := range msg.Header {
				if key == jetstream.MsgTTLHeader || key == jetstream.MsgIDHeader || strings.HasPrefix(key, "ce-") || key == "Content-Type" {
					m.Header[key] = msg.Header[key]
				}
			}
			if utf8.Valid(msg.Data) && !bytes.ContainsRune(msg.Data, 0) {
				m.Text = string(msg.Data)
			} else {
				m.Bytes = msg.Data
			}
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b stored) int { return cmp.Compare(a.Subject, b.Subject) })
	return all
}

// This version writes what the newest golden state has, in the same form: its fields, no
// fewer, which older readers look for, and no more, which no golden state has yet.
func TestStateIsWrittenInTheFormOfTheNewestGolden(t *testing.T) {
	t.Parallel()
	names := stateFiles(t)
	newest := readState(t, names[len(names)-1])
	written := writeState(t)
	change := diff.Diff(form(newest.Messages), form(written))
	if change == "" || t.Failed() {
		return
	}
	if *update {
		golden{Version: newest.Version + 1, About: "written by go test -update", At: stateHour, Messages: written}.write(t)
		return
	}
	t.Errorf("the stored state has another form than testdata/state/%d.jsonl (-golden +now). Fields may be added, for readers that do not know them: "+
		"add a version by `go -C deploy test ./e2e -run TestStateIsWritten -update`.\n%s", newest.Version, change)
}

// What a version adds leaves all that the readers of the versions before it look for.
func TestNewerStateIsReadableByOlderVersions(t *testing.T) {
	t.Parallel()
	var before []string
	for _, name := range stateFiles(t) {
		g := readState(t, name)
		now := form(g.Messages)
		for _, line := range before {
			if !slices.Contains(now, line) {
				t.Errorf("%s lacks what older versions read: %s", name, line)
			}
		}
		before = now
	}
}

// form returns the kinds of keys in a state and the fields of their values, with their
// types.
func form(messages []stored) (all []string) {
	for _, m := range messages {
		key := keyForm(m.Subject)
		for _, field := range valueForm(key, m.data()) {
			all = append(all, key+" "+field)
		}
		for name := range m.Header {
			all = append(all, key+" header "+name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// named matches the tokens of a subject that are hashes, ids or numbers.
var named = regexp.MustCompile(`^([0-9a-f]{32,}|[A-Za-z0-9_-]{22}|[A-Za-z0-9]{10}|\d+)$`)

// keyForm replaces what is named at random in a subject.
func keyForm(subject string) string {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		id, rest, _ := strings.Cut(token, "=")
		if i > 1 && named.MatchString(id) {
			tokens[i] = "HASH" + rest
		}
	}
	return strings.Join(tokens, ".")
}

// valueForm returns the fields of a value.
func valueForm(key string, data []byte) []string {
	var v any
	bucket, name, _ := strings.Cut(strings.TrimPrefix(key, "$KV."), ".")
	switch {
	case strings.Contains(key, ".tool."):
		return sections(data)
	case bucket == schemas.BucketVectors:
		return fields(data)
	case storepb.Of(bucket, name) != nil:
		return append(fields(data), messageForm(storepb.Of(bucket, name), data)...)
	case json.Unmarshal(data, &v) == nil:
		return paths("", v)
	}
	return []string{"bytes"}
}

// messageForm returns the fields of a message with those of its parts, and of the JSON in it.
func messageForm(m proto.Message, data []byte) []string {
	var v map[string]any
	err := proto.Unmarshal(data, m)
	text, invalid := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err = errors.Join(err, invalid, json.Unmarshal(text, &v)); err != nil {
		return []string{err.Error()}
	}
	if loop, ok := m.(*storepb.Loop); ok {
		var data any
		_ = json.Unmarshal(loop.GetData(), &data) // a loop without data has no such fields
		v["data"] = data
	}
	return paths("", v)
}

// paths returns the fields of a JSON value with their types.
func paths(at string, v any) (all []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			all = append(all, paths(at+"/"+name, field)...)
		}
	case []any:
		for _, item := range v {
			all = append(all, paths(at+"[]", item)...)
		}
	default:
		all = append(all, fmt.Sprintf("%s %T", at, v))
	}
	return all
}

// fields returns the numbers and types of a protobuf message's fields.
func fields(data []byte) (all []string) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return append(all, "no protobuf")
		}
		rest := protowire.ConsumeFieldValue(number, kind, data[n:])
		if rest < 0 {
			return append(all, "no protobuf")
		}
		all, data = append(all, fmt.Sprintf("field %d of type %d", number, kind)), data[n+rest:]
	}
	return all
}

// sections returns the version and the tags of a tool session's state, behind the JSON of
// its wrapper where there is one.
func sections(data []byte) []string {
	if len(data) == 0 {
		return []string{"empty"}
	}
	all := []string{"version " + strconv.Itoa(int(data[0]))}
	for data = data[1:]; len(data) >= 3; {
		n := 3 + int(data[1])<<8 + int(data[2])
		all, data = append(all, "section "+strconv.Itoa(int(data[0]))), data[min(n, len(data)):]
	}
	return all
}
