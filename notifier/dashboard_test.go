package notifier_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/status"
)

// site is a notifier's pages on a port.
type site struct {
	*httptest.Server
	js jetstream.JetStream
	nc *nats.Conn
}

func startSite(t *testing.T) *site {
	t.Helper()
	s := natstest.Start(t)
	nc := s.Conn()
	n := start(t, nc, notifier.DefaultConfig())
	n.waitReady(t)
	p := &site{Server: httptest.NewServer(n.Site(func() string { return "" })), js: s.JetStream(), nc: nc}
	t.Cleanup(p.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return p
}

// send sends a request and reads the answer into v.
func (p *site) send(t *testing.T, method, path, body string, v any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.URL+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return res.StatusCode
}

// await reads a path after each change until the answer is as wanted.
func await[T any](t *testing.T, p *site, path string, wanted func(T) bool) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	chunk := make([]byte, 4096)
	for {
		n, err := res.Body.Read(chunk)
		if err != nil {
			t.Fatalf("%s did not become as wanted: %v", path, err)
		}
		if !bytes.Contains(chunk[:n], []byte("changed")) {
			continue
		}
		var v T
		if p.send(t, http.MethodGet, path, "", &v); wanted(v) {
			return v
		}
	}
}

type loops struct {
	Loops []struct {
		ID            string `json:"loop_id"`
		State, Tenant string
		Hits          int `json:"hit_count"`
	}
}

func (l loops) is(id, state string) bool {
	return len(l.Loops) == 1 && l.Loops[0].ID == id && l.Loops[0].State == state
}

// put stores a record of an open loop, and publishes its event.
func (p *site) put(t *testing.T, id string) {
	t.Helper()
	now := time.Now()
	in := openloop.Record{Tenant: "acme", Ends: now.Add(time.Hour), Data: event.Data{
		LoopID: id, Policy: "p", Detector: "prompt", Mode: event.ModeEnforce, Action: "reject", HitCount: 6, WindowSeconds: 60, FirstSeen: now, LastSeen: now,
	}}
	if _, err := p.js.Publish(t.Context(), "$KV."+schemas.BucketIncidents+".live.p."+id, in.Append(nil)); err != nil {
		t.Fatal(err)
	}
	e := event.New(event.Detected, id+".d", now)
	e.TenantID, e.Data = "acme", in.Data
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.js.Publish(t.Context(), e.Subject(), body); err != nil {
		t.Fatal(err)
	}
}

// A loop appears with its record, is released by a detector, and is over.
func TestTheDashboardFollowsALoopAndReleasesIt(t *testing.T) {
	t.Parallel()
	p := startSite(t)
	p.put(t, "l1")
	await(t, p, "loops", func(l loops) bool { return l.is("l1", "open") && l.Loops[0].Tenant == "acme" })
	// An event that comes behind the end of its record is of a loop whose record is on its way.
	await(t, p, "events", func(e struct{ Events []json.RawMessage }) bool { return len(e.Events) == 1 })
	var fault struct{ Error struct{ Code string } }
	if status := p.send(t, http.MethodPost, "loops/l1/release", "", &fault); status != http.StatusServiceUnavailable || fault.Error.Code != "no_detector" {
		t.Errorf("without a detector: %d %+v", status, fault)
	}
	detector(t, p.nc)
	var done struct{ Counters int }
	if status := p.send(t, http.MethodPost, "loops/l1/release", `{"actor":"ops"}`, &done); status != http.StatusOK || done.Counters != 3 {
		t.Errorf("released: %d %+v", status, done)
	}
	await(t, p, "loops", func(l loops) bool { return l.is("l1", "resolved") && l.Loops[0].Hits == 6 })
	if status := p.send(t, http.MethodPost, "loops/l2/release", "", &fault); status != http.StatusNotFound || fault.Error.Code != "not_open" {
		t.Errorf("an unknown loop: %d %+v", status, fault)
	}
	var audit struct{ Actions []schemas.Audit }
	p.send(t, http.MethodGet, "audit", "", &audit)
	if len(audit.Actions) != 1 || audit.Actions[0].Action != schemas.AuditRelease || audit.Actions[0].Via != "dashboard" || !strings.HasPrefix(audit.Actions[0].Actor, "ops@") {
		t.Errorf("audit %+v", audit.Actions)
	}
}

// detector answers releases of the loop l1 as detectors do.
func detector(t *testing.T, nc *nats.Conn) {
	t.Helper()
	answer := func(m *nats.Msg, reply *checkpb.ReleaseReply) {
		if body, err := proto.Marshal(reply); err == nil {
			_ = m.Respond(body)
		}
	}
	_, err := nc.Subscribe(schemas.SubjectRelease, func(m *nats.Msg) {
		var r checkpb.ReleaseRequest
		if proto.Unmarshal(m.Data, &r) != nil || r.GetLoopId() != "l1" {
			answer(m, &checkpb.ReleaseReply{Error: checkpb.ErrorNotOpen})
			return
		}
		_ = nc.Publish("$KV."+schemas.BucketIncidents+".live.p.l1", nil)
		if body, err := proto.Marshal(&checkpb.Forget{LoopId: "l1"}); err == nil {
			_ = nc.Publish(schemas.SubjectForget, body)
		}
		answer(m, &checkpb.ReleaseReply{Count: 3})
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheDashboardKeepsSilences(t *testing.T) {
	t.Parallel()
	p := startSite(t)
	var added struct{ ID, State, Author string }
	if status := p.send(t, http.MethodPost, "silences", `{"matchers":{"tenant":["acme"]},"author":"ops","duration_seconds":600}`, &added); status != http.StatusCreated || added.State != "active" {
		t.Fatalf("%d %+v", status, added)
	}
	type silences struct{ Silences []struct{ ID, State string } }
	await(t, p, "silences", func(s silences) bool { return len(s.Silences) == 1 && s.Silences[0].ID == added.ID })
	var ended map[string]any
	if status := p.send(t, http.MethodDelete, "silences/"+added.ID, "", &ended); status != http.StatusOK {
		t.Fatalf("end: %d %v", status, ended)
	}
	await(t, p, "silences", func(s silences) bool { return len(s.Silences) == 0 })
	if status := p.send(t, http.MethodDelete, "silences/"+added.ID, "", &ended); status != http.StatusNotFound {
		t.Errorf("end again: %d %v", status, ended)
	}
}

// Parts answer for themselves; the pushed bundle and what operators block are followed.
func TestTheDashboardShowsPartsPoliciesAndBlocks(t *testing.T) {
	t.Parallel()
	p := startSite(t)
	if _, err := p.nc.Subscribe(schemas.SubjectStatus, func(m *nats.Msg) {
		_ = m.Respond([]byte("no status"))
		body, _ := json.Marshal(status.Status{Service: "gateway", ID: "g1", Host: "h", Ready: true, Bundle: &status.Bundle{Version: "7-aa", Source: "pushed"}})
		_ = m.Respond(body)
	}); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		schemas.BucketPolicies + "." + schemas.KeyBundle: "bundle_version: 7\npolicies: [{id: p, spec: {prompt: {}}}]\n",
		schemas.BucketOverrides + ".block.tenant.acme":   `{"action":"block","scope":"tenant","value":"acme","expires_at":"2999-01-01T00:00:00Z"}`,
	} {
		if _, err := p.js.Publish(t.Context(), "$KV."+key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	type policies struct {
		Pushed  struct{ Version string }
		InForce []struct{ Version string } `json:"in_force"`
	}
	await(t, p, "policies", func(got policies) bool { return strings.HasPrefix(got.Pushed.Version, "7-") && len(got.InForce) == 1 })
	await(t, p, "overrides", func(got struct{ Overrides []schemas.Override }) bool { return len(got.Overrides) == 1 })
	var health struct {
		Parts   []struct{ ID, State string }
		Streams []struct{ Name string }
		NATS    string
	}
	p.send(t, http.MethodGet, "health", "", &health)
	if len(health.Parts) != 1 || health.Parts[0].State != "ready" || len(health.Streams) < 8 || health.NATS != "" {
		t.Errorf("health %+v", health)
	}
}

func TestWithoutDashboardNothingIsServed(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	cfg := notifier.DefaultConfig()
	cfg.Dashboard = false
	n := start(t, s.Conn(), cfg)
	w := httptest.NewRecorder()
	n.Site(func() string { return "" }).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
}

// The dashboard lists endpoints, tests them, and shows and repeats what was delivered.
func TestTheDashboardTestsEndpointsAndSendsAgain(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, nil)
	s := natstest.Start(t)
	nc := s.Conn()
	n := start(t, nc, testConfig(hook.URL))
	n.waitReady(t)
	p := &site{Server: httptest.NewServer(n.Site(func() string { return "" })), js: s.JetStream(), nc: nc}
	t.Cleanup(p.Close)
	var list struct {
		Endpoints []struct{ Name, Kind, State string }
	}
	p.send(t, http.MethodGet, "endpoints", "", &list)
	if len(list.Endpoints) != 1 || list.Endpoints[0].Kind != "webhook" || list.Endpoints[0].State != "active" {
		t.Fatalf("endpoints %+v", list)
	}
	name := list.Endpoints[0].Name
	var sent struct {
		ID, Status string
		Loops      []string
	}
	if status := p.send(t, http.MethodPost, "endpoints/"+name+"/test", "", &sent); status != http.StatusOK || sent.Status != "delivered" {
		t.Fatalf("test: %d %+v", status, sent)
	}
	receive(t, hook.got)
	if end := receive(t, hook.got); end.id() != sent.ID+"-end" {
		t.Errorf("after the test message came %s, want its end", end.id())
	}
	type shown struct {
		ID       string
		Attempts []struct{ Manual bool }
	}
	type deliveries struct{ Deliveries []shown }
	await(t, p, "deliveries", func(d deliveries) bool { return len(d.Deliveries) == 2 })
	if status := p.send(t, http.MethodPost, "deliveries/"+name+"/"+sent.ID+"/resend", `{"actor":"ops"}`, &sent); status != http.StatusOK {
		t.Fatalf("resend: %d %+v", status, sent)
	}
	if d := receive(t, hook.got); d.id() != sent.ID {
		t.Errorf("sent again as %s, want %s", d.id(), sent.ID)
	}
	await(t, p, "deliveries", func(d deliveries) bool {
		at := slices.IndexFunc(d.Deliveries, func(one shown) bool { return one.ID == sent.ID })
		return at >= 0 && len(d.Deliveries[at].Attempts) == 2 && d.Deliveries[at].Attempts[1].Manual
	})
	var fault struct{ Error struct{ Code string } }
	for _, path := range []string{"endpoints/none/test", "deliveries/" + name + "/none/resend"} {
		if status := p.send(t, http.MethodPost, path, "", &fault); status != http.StatusNotFound || fault.Error.Code != "no_such_delivery" {
			t.Errorf("%s: %d %+v", path, status, fault)
		}
	}
	var audit struct{ Actions []schemas.Audit }
	p.send(t, http.MethodGet, "audit", "", &audit)
	if len(audit.Actions) != 1 || audit.Actions[0].Action != schemas.AuditResend {
		t.Errorf("audit %+v", audit.Actions)
	}
}

// A caller is blocked from the page where records need no seal, and let through again; the
// audit has both.
func TestTheDashboardBlocksACaller(t *testing.T) {
	t.Parallel()
	p := startSite(t)
	type overrides struct {
		Overrides []schemas.Override
		Sealed    bool
	}
	var set schemas.Override
	if status := p.send(t, http.MethodPost, "overrides", `{"action":"block","scope":"caller","value":"ca11","reason":"loops","duration_seconds":600,"actor":"ops"}`, &set); status != http.StatusCreated || set.Value != "ca11" {
		t.Fatalf("%d %+v", status, set)
	}
	await(t, p, "overrides", func(o overrides) bool { return len(o.Overrides) == 1 && o.Overrides[0].Reason == "loops" && !o.Sealed })
	if status := p.send(t, http.MethodDelete, "overrides/block/caller/ca11", `{"actor":"ops"}`, &set); status != http.StatusOK || set.EndedAt.IsZero() {
		t.Fatalf("end: %d %+v", status, set)
	}
	await(t, p, "overrides", func(o overrides) bool { return len(o.Overrides) == 0 })
	var audit struct{ Actions []schemas.Audit }
	p.send(t, http.MethodGet, "audit", "", &audit)
	if len(audit.Actions) != 2 || audit.Actions[0].Action != schemas.AuditUnblock || audit.Actions[1].Action != schemas.AuditBlock || audit.Actions[1].Target != "caller ca11" {
		t.Errorf("audit %+v", audit.Actions)
	}
}
