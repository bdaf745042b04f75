package natsconfig_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/audit"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/silence"
)

// withLines returns a copy of a configuration with further lines.
func withLines(t *testing.T, file string, extra []string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	more := file + ".more"
	if err := os.WriteFile(more, append(text, "\n"+strings.Join(extra, "\n")+"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	return more
}

// unloop is all services, each with its own user.
type unloop struct {
	*installation
	gateway  string
	upstream string
	conns    map[string]*natskit.Conn
	// metrics are those of the service that was started last.
	metrics   *prometheus.Registry
	delivered chan string
	log       *lines
}

// start runs all services until the test ends, and waits until they are ready.
func (in *installation) start() *unloop {
	in.t.Helper()
	u := &unloop{installation: in, conns: map[string]*natskit.Conn{}, delivered: make(chan string, 100), log: &lines{}}
	upstream := httptest.NewServer(scripted.New(nil))
	in.t.Cleanup(upstream.Close)
	u.upstream = upstream.URL
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.delivered <- string(body)
	}))
	in.t.Cleanup(hook.Close)
	if err := u.push(in.t.Context(), patient); err != nil {
		in.t.Fatal(err)
	}
	u.run(natsperm.Detector, func(d service.Deps) (service.Service, error) { return detector.New(d) })
	u.run(natsperm.Embedworker, func(d service.Deps) (service.Service, error) {
		cfg := embedworker.DefaultConfig()
		cfg.Embedder = "lexical"
		return embedworker.New(cfg, d)
	})
	u.run(natsperm.Notifier, func(d service.Deps) (service.Service, error) {
		cfg := notifier.DefaultConfig()
		cfg.Webhook, cfg.AllowCIDR, cfg.WebhookSince = hook.URL, []string{"127.0.0.0/8"}, "all"
		return notifier.New(cfg, d)
	})
	u.startGateway()
	return u
}

// startGateway runs a gateway, to which requests are sent from now on.
func (u *unloop) startGateway() (g *gateway.Gateway) {
	u.t.Helper()
	u.run(natsperm.Gateway, func(d service.Deps) (_ service.Service, err error) {
		cfg := gateway.DefaultConfig()
		cfg.Listen, cfg.Upstream, cfg.Reject = "127.0.0.1:0", map[string]string{"openai": u.upstream}, "429"
		cfg.CheckTimeout, cfg.StartGrace = patience, patience
		g, err = gateway.New(cfg, d)
		if err == nil {
			u.gateway = "http://" + g.Addr()
		}
		return g, err
	})
	return g
}

// run runs one service with its admin port.
func (u *unloop) run(name string, build func(service.Deps) (service.Service, error)) {
	u.t.Helper()
	conn, reg := u.connect(name, u.log.log()), service.NewRegistry()
	u.conns[name], u.metrics = conn, reg
	layout := natskit.Layout{Replicas: u.Replicas}
	svc, err := build(service.Deps{Log: u.log.log(), Metrics: reg, NATS: conn, Layout: layout, Trust: u.trust()})
	if err != nil {
		u.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(u.t.Context()))
	done := make(chan error, 1)
	service.Attach(ctx, name, svc, reg, conn, layout)
	go func() { done <- svc.Run(ctx) }()
	u.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			u.t.Errorf("run %s: %v", name, err)
		}
	})
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := conn.CheckState(waiting); err != nil {
		u.t.Errorf("%s looks at the state: %v", name, err)
	}
	if err := svc.Readiness().Wait(waiting); err != nil {
		u.t.Fatalf("%s is not ready: %v\n%s", name, err, u.log)
	}
}

// send sends a prompt and returns the status and the body of the answer.
func (u *unloop) send(prompt, session string) (status int, body string) {
	u.t.Helper()
	request := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, prompt)
	req, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, u.gateway+"/v1/chat/completions", strings.NewReader(request))
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer k")
	if session != "" {
		req.Header.Set("X-Session-ID", session)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	if why := res.Header.Get("X-Loop-Degraded"); why != "" {
		u.t.Errorf("%q was not checked: %s", prompt, why)
	}
	return res.StatusCode, string(text)
}

// loop sends a prompt until it is refused, and returns the id of the loop.
func (u *unloop) loop(prompt string) (id string) {
	u.t.Helper()
	for range 6 {
		status, body := u.send(prompt, "")
		if status == http.StatusOK {
			continue
		}
		var refusal struct {
			Detail struct {
				LoopID string `json:"loop_id"`
			} `json:"detail"`
		}
		if err := json.NewDecoder(bytes.NewReader([]byte(body))).Decode(&refusal); err != nil || refusal.Detail.LoopID == "" {
			u.t.Fatalf("status %d, %s", status, body)
		}
		return refusal.Detail.LoopID
	}
	u.t.Fatalf("%q was not refused\n%s", prompt, u.log)
	return ""
}

// work has every service do its whole work once, and operators and subscribers theirs.
func (u *unloop) work() {
	t := u.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	subscriber := u.connect(natsperm.Subscriber, u.log.log())
	heard := make(chan string, 100)
	if _, err := subscriber.Subscribe("loop.detected.>", func(m *nats.Msg) { heard <- m.Subject }); err != nil {
		t.Fatal(err)
	}
	subscriber.Flush(patience)
	id := u.loop("again")
	u.receive("an event", heard)
	u.receive("a message to the endpoint", u.delivered)
	if _, err := subscriber.JetStream().Stream(ctx, schemas.StreamEvents); err != nil {
		t.Errorf("the subscriber: %v", err)
	}
	for _, text := range []string{"Find out why the login page redirects twice.", "The login page redirects twice. Find out why."} {
		if status, body := u.send(text, "s"); status != http.StatusOK {
			t.Errorf("status %d: %s", status, body)
		}
	}
	u.operate(ctx, id)
	if status, _ := u.send("again", ""); status != http.StatusOK {
		t.Errorf("after the release: status %d", status)
	}
}

// receive takes one message.
func (u *unloop) receive(what string, from <-chan string) {
	u.t.Helper()
	select {
	case <-from:
	case <-time.After(patience):
		u.t.Fatalf("%s did not come\n%s", what, u.log)
	}
}

// patient is the policy that holds first. Texts are compared in time on busy machines, too.
const patient = `
bundle_version: 1
policies:
  - {id: patient, spec: {prompt: {}, semantic: {budget_ms: 10000}}}
`

const bundle = `
bundle_version: 1
policies:
  - {id: pushed, spec: {selector: {pathPrefix: /v1/}, prompt: {max_hits: 5}}}
`

// push makes a bundle that of all gateways, as an operator.
func (u *unloop) push(ctx context.Context, bundle string) error {
	return u.put(ctx, schemas.BucketPolicies, schemas.KeyBundle, bundle)
}

// put writes a record as an operator.
func (u *unloop) put(ctx context.Context, bucket, key, value string) error {
	at := u.installation
	if u.origin != nil {
		at = u.origin
	}
	_, err := operator.Store(ctx, at.jetstream(natsperm.Operator), at.signer(), bucket, key, []byte(value), 0)
	return err
}

// operate does what operators do, as the command line and the dashboard.
func (u *unloop) operate(ctx context.Context, id string) {
	t, js := u.t, u.jetstream(natsperm.Operator)
	t.Helper()
	notifier := u.conns[natsperm.Notifier]
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := operator.Release(ctx, js.Conn(), id)
	must("release", err)
	must("push a bundle", u.push(ctx, bundle))
	must("write an override", u.put(ctx, schemas.BucketOverrides, "x", "{}"))
	limits, err := js.KeyValue(ctx, schemas.BucketLimits)
	if err == nil {
		err = limits.Purge(ctx, "rule.live.p.r.h")
	}
	must("purge what a rule counts", err)
	for who, js := range map[string]jetstream.JetStream{"operator": js, "dashboard": notifier.JetStream()} {
		now := time.Now()
		s, err := silences.Add(ctx, js, silence.Silence{Matchers: match.Matchers{"tenant": {"x"}}, Start: now, End: now.Add(time.Hour), Author: who, Comment: "test"})
		must(who+" silences", err)
		if err == nil {
			_, err = silences.Expire(ctx, js, s.ID)
			must(who+" ends a silence", err)
		}
		must(who+" records", audit.Record(ctx, js, schemas.Audit{Action: schemas.AuditPolicy, Actor: who}))
		_, err = audit.List(ctx, js, 10)
		must(who+" reads the audit", err)
	}
	for who, nc := range map[string]*nats.Conn{"operator": js.Conn(), "dashboard": notifier.NATS(), "monitor": u.jetstream(natsperm.Monitor).Conn()} {
		var names []string
		u.await(who+" sees all parts", func() bool {
			names = nil
			for _, p := range operator.Parts(ctx, nc) {
				names = append(names, p.Service)
			}
			slices.Sort(names)
			return slices.Equal(names, []string{natsperm.Detector, natsperm.Embedworker, natsperm.Gateway, natsperm.Notifier})
		})
	}
}

// refused returns what the server refused the services.
func (u *unloop) refused() (all []string) {
	for name, conn := range u.conns {
		if n := conn.Refused(natskit.ActionPublish) + conn.Refused(natskit.ActionSubscribe); n > 0 {
			all = append(all, fmt.Sprint(name, ": ", n))
		}
	}
	if len(all) > 0 {
		all = append(all, u.log.String())
	}
	return all
}

// Every service does its full work with its own user, over TLS, and the server refuses it
// nothing.
func TestEveryServiceWorksWithItsOwnUser(t *testing.T) {
	t.Parallel()
	in := install(t, 1, nil)
	in.prepare(1)
	u := in.start()
	u.work()
	for name, conn := range u.conns {
		u.await(name+" is ready", func() bool { return conn.Ready() == nil })
	}
	if refused := u.refused(); len(refused) > 0 {
		t.Errorf("refused:\n%s", strings.Join(refused, "\n"))
	}
}

// Partitions grow while the services work, and the server refuses nobody anything.
func TestPartitionsGrowUnderTheirUsers(t *testing.T) {
	t.Parallel()
	in := install(t, 1, func(c *natsconfig.Config) { c.Partitions = 4 })
	in.prepare(1)
	u := in.start()
	growth := natskit.Growth{JS: in.jetstream(natsperm.Operator), Layout: natskit.Layout{Partitions: 4}.Everything()}
	if _, err := natskit.Prepare(t.Context(), growth.JS, growth.Layout); err != nil {
		t.Fatal(err)
	}
	if err := operator.KnowPartitions(t.Context(), growth.JS.Conn()); err != nil {
		t.Errorf("before the growth: %v", err)
	}
	if _, err := growth.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.await("the detector knows", func() bool {
		scheme, _ := u.conns[natsperm.Detector].UsePartitions()
		return scheme.Phase == partition.Sealing
	})
	u.work()
	scheme, err := growth.Proceed(t.Context(), partition.Moving)
	if err == nil {
		_, err = growth.Sweep(t.Context(), scheme)
	}
	if err == nil {
		_, err = growth.Proceed(t.Context(), partition.Settled)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, conn := range u.conns {
		u.await(name+" is ready", func() bool { return conn.Ready() == nil })
	}
	for _, p := range operator.Parts(t.Context(), growth.JS.Conn()) {
		if spreads := p.Service == natsperm.Detector || p.Service == natsperm.Embedworker; spreads != (p.Partitions == 4) {
			t.Errorf("%s knows of %d partitions", p.Service, p.Partitions)
		}
	}
	if refused := u.refused(); len(refused) > 0 {
		t.Errorf("refused:\n%s", strings.Join(refused, "\n"))
	}
}

// recipe returns the line of docs/nats.md that begins so.
func recipe(t *testing.T, begins string) string {
	t.Helper()
	for line := range strings.Lines(read(t, "../../../docs", "nats.md")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, begins) {
			return line
		}
	}
	t.Fatalf("docs/nats.md has no line %s", begins)
	return ""
}

// Services at a leaf node, set up as docs/nats.md says, use the streams of the domain behind it.
func TestServicesAtALeafNodeUseTheDomain(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	hub := install(t, 1, func(c *natsconfig.Config) { c.Domain, c.TLS, c.Partitions = "hub", natsconfig.TLS{}, 4 },
		"LEAF_PASSWORD: secret", strings.Replace(recipe(t, "leafnodes {listen"), "0.0.0.0:7422", fmt.Sprint("127.0.0.1:", ports[0]), 1))
	hub.prepare(1)
	// The leaf has the same users, and a JetStream of its own, in another domain.
	leafText := strings.NewReplacer(
		`"nats-1"`, `"leaf"`, fmt.Sprintf(`"127.0.0.1:%d"`, hub.Nodes[0].ClientPort), fmt.Sprintf(`"127.0.0.1:%d"`, ports[1]),
		`domain: "hub"`, `domain: "edge"`, "store-nats-1", "store-leaf",
	).Replace(read(t, hub.dir, natsconfig.ServerFile(hub.Nodes[0]))) + fmt.Sprintf("\nHUB_URL: \"nats-leaf://leaf:secret@127.0.0.1:%d\"\n%s\n", ports[0], recipe(t, "leafnodes {remotes"))
	file := filepath.Join(hub.dir, "leaf.conf")
	if err := os.WriteFile(file, []byte(leafText), 0o600); err != nil {
		t.Fatal(err)
	}
	leaf := run(t, file)
	if !leaf.ReadyForConnections(patience) {
		t.Fatal("the leaf does not start")
	}
	hub.await("the leaf is joined", func() bool { return leaf.NumLeafNodes() > 0 && hub.servers[0].NumLeafNodes() > 0 })
	hub.url = fmt.Sprintf("nats://127.0.0.1:%d", ports[1])
	u := hub.start()
	u.work()
	if refused := u.refused(); len(refused) > 0 {
		t.Errorf("refused:\n%s", strings.Join(refused, "\n"))
	}
	if info, err := leaf.Jsz(nil); err != nil || info.Streams != 0 {
		t.Errorf("the leaf has streams of its own: %+v, %v", info, err)
	}
}
