package schemas_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/event"
)

// update writes the messages of golden that have no file yet. Files that are
// there are what was once on the wire, and stay as they are.
var update = flag.Bool("update", false, "write golden messages that are missing")

// What was once on the wire reads as what it meant, and is written the same
// way again.
func TestOldMessagesStayReadable(t *testing.T) {
	t.Parallel()
	for name, message := range golden() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wire, meaning := stored(t, name, message)
			got := message.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(wire, got); err != nil {
				t.Fatalf("read: %v", err)
			}
			want := message.ProtoReflect().New().Interface()
			if err := protojson.Unmarshal(meaning, want); err != nil {
				t.Fatalf("read its meaning: %v", err)
			}
			if !proto.Equal(got, want) {
				t.Errorf("the message means something else now:\n%s", cmp.Diff(protojson.Format(want), protojson.Format(got)))
			}
			again, err := proto.MarshalOptions{Deterministic: true}.Marshal(got)
			if err != nil || !bytes.Equal(again, wire) {
				t.Errorf("written again it differs: %v", err)
			}
		})
	}
}

// stored reads a message's files: its bytes, and its meaning as JSON.
func stored(t *testing.T, name string, message proto.Message) (wire, meaning []byte) {
	t.Helper()
	base := filepath.Join("testdata", "golden", name)
	if _, err := os.Stat(base + ".binpb"); *update && os.IsNotExist(err) {
		wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		write(t, base+".binpb", wire)
		write(t, base+".json", []byte(protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Format(message)+"\n"))
	}
	return read(t, base+".binpb"), read(t, base+".json")
}

func TestOldEventsStayReadableAndFitTheirSchema(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]event.Finding{
		"event-1": {}, "event-2": {Excerpt: strings.Repeat("é", event.MaxExcerpt)}, "event-3": {Answer: event.AnswerSynthetic},
		"event-4": {Rule: "ping-pong", Tool: "read_file,search"},
		"event-5": {Threshold: 5, WindowSeconds: 1800, Similarity: 0.97, Calls: []event.Call{
			{Tool: "read_file", Call: "0123456789abcdef", Result: "fedcba9876543210"}, {Call: "00000000000000ff"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testEvent(t, filepath.Join("testdata", "golden", name+".json"), f)
		})
	}
}

func testEvent(t *testing.T, file string, f event.Finding) {
	t.Helper()
	usd := 0.03
	at := time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)
	want := event.New(event.Detected, "viIzp0jq26E8k6XTjdCptc.loop.detected", at)
	want.ProjectID, want.TenantID, want.RequestID = "proj_abc123", "acme", "req_def456"
	want.Data = event.Data{
		LoopID: "viIzp0jq26E8k6XTjdCptc", Detector: "prompt", Policy: "agent-tools", Mode: event.ModeEnforce, Action: "reject", Answer: f.Answer,
		Fingerprint: "a3f7c2d1b8e4", HitCount: 6, Threshold: 5, WindowSeconds: 60, CooldownSeconds: 30, Model: "gpt-4o-mini",
		Session: "5e55", Similarity: 0.97, FirstSeen: at, LastSeen: at.Add(time.Second),
		Saved: event.Saved{Requests: 1, InputTokens: 2500, USD: &usd},
	}
	if f.Calls != nil {
		want.Data.Caller = "ca11e2"
	}
	f.Detector, f.Action, f.Fingerprint, f.HitCount = "prompt", "reject", "a3f7c2d1b8e4", 6
	want.Data.Findings = []event.Finding{f}
	if _, err := os.Stat(file); *update && os.IsNotExist(err) {
		body, err := json.MarshalIndent(want, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, append(body, '\n'))
	}
	body := read(t, file)
	got, err := event.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the event means something else now (-want +got):\n%s", diff)
	}
	again, err := json.MarshalIndent(got, "", "  ")
	if err != nil || string(again)+"\n" != string(body) {
		t.Errorf("written again it differs: %v\n%s", err, cmp.Diff(string(body), string(again)+"\n"))
	}
	if err := validate(t, body); err != nil {
		t.Errorf("the event does not fit its schema: %v", err)
	}
	for name, spoil := range map[string]func(map[string]any){
		"unknown type": func(e map[string]any) { e["type"] = "loop.maybe" },
		"no id":        func(e map[string]any) { delete(e, "id") },
		"no loop id":   func(e map[string]any) { delete(e["data"].(map[string]any), "loop_id") },
		"bad answer":   func(e map[string]any) { e["data"].(map[string]any)["answer"] = "yes" },
		"bad mode":     func(e map[string]any) { e["data"].(map[string]any)["mode"] = "off" },
		"long excerpt": func(e map[string]any) {
			e["data"].(map[string]any)["findings"].([]any)[0].(map[string]any)["excerpt"] = strings.Repeat("é", event.MaxExcerpt+1)
		},
	} {
		var e map[string]any
		if err := json.Unmarshal(body, &e); err != nil {
			t.Fatal(err)
		}
		spoil(e)
		spoiled, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if validate(t, spoiled) == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}

// validate checks a body against the event's JSON Schema.
func validate(t *testing.T, body []byte) error {
	t.Helper()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(event.Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("event.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("event.json")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(instance)
}

func TestEventSubjectsAndHeaders(t *testing.T) {
	t.Parallel()
	e := event.New(event.Detected, "id-1", time.Unix(0, 0))
	e.Data.Policy = "agent tools"
	if _, sent := e.Headers()["ce-traceparent"]; sent {
		t.Error("an event without a trace has a trace's header")
	}
	e.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got, want := e.Subject(), "loop.detected._.agent%20tools"; got != want {
		t.Errorf("subject %s, want %s", got, want)
	}
	for name, want := range map[string]string{
		"Nats-Msg-Id": "id-1", "ce-id": "id-1", "ce-type": "loop.detected", "ce-specversion": "1.0", "ce-time": "1970-01-01T00:00:00Z", "ce-traceparent": e.Traceparent,
	} {
		if got := e.Headers()[name]; len(got) != 1 || got[0] != want {
			t.Errorf("header %s: %v, want %s", name, got, want)
		}
	}
	for _, body := range []string{"", "{}", "[]", `{"type":"loop.detected"}`, "\xff"} {
		if _, err := event.Parse([]byte(body)); err == nil {
			t.Errorf("%q was read as an event", body)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write missing golden messages with: go test . -update", err)
	}
	return data
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
