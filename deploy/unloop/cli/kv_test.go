package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// goldenState stores the golden state of a version, and returns how many records each bucket
// has.
func goldenState(t *testing.T, s *natstest.Server, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	records, lines := map[string]int{}, bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			Subject string
			Header  nats.Header
			Text    string
			Bytes   []byte
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		key, isRecord := strings.CutPrefix(m.Subject, "$KV.")
		if !isRecord || strings.HasPrefix(key, "LOOP_VECTORS") { // which embedding workers create
			continue
		}
		if _, err := s.JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: append(m.Bytes, m.Text...)}); err != nil {
			t.Fatal(err)
		}
		bucket, _, _ := strings.Cut(key, ".")
		records[bucket]++
	}
	return records
}

// One command prints every record that a version has stored, and no secret.
func TestEveryStoredRecordIsPrinted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../e2e/testdata/state/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	s := natstest.Start(t)
	buckets := goldenState(t, s, files[len(files)-1])
	for bucket, n := range buckets {
		code, out, errOut := command(t, "kv", bucket, "--nats", s.URL())
		if got := strings.Count(out, "\n"); code != 0 || got != n {
			t.Errorf("%s: code %d, %d records of %d, %s", bucket, code, got, n, errOut)
		}
		if strings.Contains(out, strings.Repeat("k", 32)) {
			t.Errorf("the key for caller hashes is printed: %s", out)
		}
	}
	for bucket, want := range map[string]string{
		"LOOP_COUNTERS": `"count":"`, "LOOP_BLOCKS": `"until":"`, "LOOP_BUDGETS": `"spent":60`, "LOOP_INCIDENTS": `"loop_id":"`, "LOOP_SESSIONS": `"most_repeated":"read"`,
		"LOOP_POLICIES": `"secret"`, "LOOP_OVERRIDES": `"reason":"unpaid"`, "LOOP_NOTIFICATIONS": `"endpoint":"busy"`,
	} {
		if _, out, _ := command(t, "kv", bucket, "--nats", s.URL()); buckets[bucket] == 0 || !strings.Contains(out, want) {
			t.Errorf("%s has no %s: %s", bucket, want, out)
		}
	}
	if code, _, errOut := command(t, "kv", "LOOP_NOTHING", "--nats", s.URL()); code == 0 || !strings.Contains(errOut, "LOOP_NOTHING") {
		t.Errorf("no such bucket: code %d, %s", code, errOut)
	}
	js := s.JetStream()
	if _, err := js.Publish(t.Context(), "$KV.LOOP_COUNTERS.prompt.live.p.x", []byte("\xff\xff")); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := command(t, "kv", "LOOP_COUNTERS", "--nats", s.URL()); code == 0 || !strings.Contains(errOut, "prompt.live.p.x") || strings.Count(out, "\n") != buckets["LOOP_COUNTERS"]+1 {
		t.Errorf("a broken record: code %d, %s%s", code, out, errOut)
	}
	if _, err := js.Publish(t.Context(), "$KV.LOOP_BUDGETS."+natskit.ProbeKey, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := command(t, "kv", "LOOP_BUDGETS", natskit.ProbeKey, "--nats", s.URL()); code != 0 || out != `{"key":"probe","record":null}`+"\n" {
		t.Errorf("a probe: code %d, %s%s", code, out, errOut)
	}
}
