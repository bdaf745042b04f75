package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/status"
)

// A new user's way: configuration, server, streams, and a command as the operator.
func TestNATSConfigurationRunsAServer(t *testing.T) {
	t.Parallel()
	dir, addr := filepath.Join(t.TempDir(), "nats"), natstest.FreeAddr(t)
	code, out, errOut := command(t, "nats", "config", dir, "--tls", "--host", addr, "--monitor-port", "0")
	if code != 0 || !strings.Contains(out, "nats-server -c "+filepath.Join(dir, "nats-1.conf")) {
		t.Fatalf("code %d: %s%s", code, out, errOut)
	}
	if code, _, errOut := command(t, "nats", "config", dir); code != 1 || !strings.Contains(errOut, "--force") {
		t.Errorf("again: code %d, %s", code, errOut)
	}
	if code, _, errOut := command(t, "nats", "config", dir+"3", "--nodes", "3"); code != 1 || !strings.Contains(errOut, "--tls") {
		t.Errorf("a cluster without certificates: code %d, %s", code, errOut)
	}
	if code, _, errOut := command(t, "nats", "config", dir+"5", "--server-dir", "/srv/nats", "--client-dir", "/etc/unloop"); code != 0 {
		t.Errorf("for containers: code %d, %s", code, errOut)
	}
	for file, want := range map[string]string{"nats-1.conf": `store_dir: "/srv/nats/store-nats-1"`, "gateway.env": "UNLOOP_NATS_NKEY=/etc/unloop/gateway.nk\n"} {
		if text, err := os.ReadFile(filepath.Join(dir+"5", file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("for containers: %s has no %s: %v\n%s", file, want, err, text)
		}
	}
	runServer(t, dir)
	flags := envFlags(t, filepath.Join(dir, "operator.env"))
	streams := len(natskit.Layout{}.Everything().Streams())
	if code, out, errOut := command(t, append([]string{"nats", "init"}, flags...)...); code != 0 || strings.Count(out, "created") != streams {
		t.Fatalf("init: code %d, %s%s", code, out, errOut)
	}
	if code, out, errOut := command(t, append([]string{"nats", "init"}, flags...)...); code != 0 || strings.Count(out, "as it was") != streams {
		t.Errorf("init again: code %d, %s%s", code, out, errOut)
	}
	if code, _, errOut := command(t, append([]string{"loops"}, flags...)...); code != 0 {
		t.Errorf("loops: code %d, %s", code, errOut)
	}
	if code, _, errOut := command(t, "loops", "--nats", "tls://"+addr, "--nats-tls-ca", filepath.Join(dir, "ca.pem"), "--nats-nkey", filepath.Join(dir, "missing")); code != 1 || !strings.Contains(errOut, "--nats-nkey") {
		t.Errorf("a missing key: code %d, %s", code, errOut)
	}
}

// Two regions by commands: the one joins the other, mirrors its policies, and says so.
func TestARegionJoinsItsOrigin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) (int, string) {
		code, out, errOut := command(t, args...)
		return code, out + errOut
	}
	must := func(args ...string) string {
		t.Helper()
		code, out := run(args...)
		if code != 0 {
			t.Fatalf("%v: code %d, %s", args, code, out)
		}
		return out
	}
	hub, eu := filepath.Join(dir, "hub"), filepath.Join(dir, "eu")
	_, leaf, _ := strings.Cut(natstest.FreeAddr(t), ":")
	server := func(dir string, more ...string) {
		must(append([]string{"nats", "config", dir, "--tls", "--host", natstest.FreeAddr(t), "--monitor-port", "0", "--max-file-store", "64GB"}, more...)...)
	}
	server(hub, "--region", "hub", "--regions", "eu,us", "--leaf-port", leaf)
	invitation := filepath.Join(hub, "region-eu.json")
	if code, out := run("nats", "config", eu, "--tls", "--join", invitation, "--region", "us"); code != 1 || !strings.Contains(out, "must be the same") {
		t.Errorf("a region with another's file: code %d, %s", code, out)
	}
	server(eu, "--join", invitation)
	runServer(t, hub)
	runServer(t, eu)
	as := func(dir, user string, args ...string) []string {
		return append(args, commonFlags(envFlags(t, filepath.Join(dir, user+".env")), slices.Contains(args, "init"))...)
	}
	if code, out := run(append(as(eu, "operator", "nats", "init"), "--timeout", "2s")...); code != 1 || !strings.Contains(out, "has heard nothing of the origin") {
		t.Errorf("a region before its origin: code %d, %s", code, out)
	}
	must(as(hub, "operator", "nats", "init")...)
	must(as(eu, "operator", "nats", "init")...)
	bundle := filepath.Join(dir, "bundle.yaml")
	if err := os.WriteFile(bundle, []byte("bundle_version: 1\npolicies:\n  - {id: p, spec: {prompt: {}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := run(as(eu, "operator", "policy", "push", bundle)...); code != 1 || !strings.Contains(out, "comes from region hub: run this command there") {
		t.Errorf("pushed in the region: code %d, %s", code, out)
	}
	must(as(hub, "operator", "policy", "push", bundle)...)
	if code, out := run(as(eu, "monitor", "status")...); code != 1 || !strings.Contains(out, "From region hub:    KV_LOOP_POLICIES, 0 behind") {
		t.Errorf("status: code %d, %s", code, out)
	}
	if _, out := run(as(hub, "operator", "doctor")...); !strings.Contains(out, "region us is never heard of") || !strings.Contains(out, "region eu is linked") {
		t.Errorf("doctor at the origin: %s", out)
	}
}

// When the origin is lost for good, another region becomes it, and the third joins that one.
func TestARegionBecomesTheOrigin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must := func(args ...string) string {
		t.Helper()
		code, out, errOut := command(t, args...)
		if code != 0 {
			t.Fatalf("%v: code %d, %s%s", args, code, out, errOut)
		}
		return out
	}
	hub, eu, us := filepath.Join(dir, "hub"), filepath.Join(dir, "eu"), filepath.Join(dir, "us")
	at := map[string][]string{}
	for _, region := range []string{hub, eu, us} {
		_, leaf, _ := strings.Cut(natstest.FreeAddr(t), ":")
		at[region] = []string{region, "--tls", "--host", natstest.FreeAddr(t), "--monitor-port", "0", "--leaf-port", leaf}
	}
	config := func(region string, more ...string) {
		t.Helper()
		must(append(append([]string{"nats", "config"}, at[region]...), more...)...)
	}
	as := func(region string, args ...string) []string {
		return append(args, commonFlags(envFlags(t, filepath.Join(region, "operator.env")), slices.Contains(args, "init"))...)
	}
	bundle := func(policy string) string {
		file := filepath.Join(dir, policy+".yaml")
		if err := os.WriteFile(file, []byte("bundle_version: 1\npolicies:\n  - {id: "+policy+", spec: {prompt: {}}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	config(hub, "--region", "hub", "--regions", "eu,us")
	config(eu, "--join", filepath.Join(hub, "region-eu.json"))
	config(us, "--join", filepath.Join(hub, "region-us.json"))
	names := map[string]string{} // a server drops a leaf node when another one has the same name
	for _, region := range []string{hub, eu, us} {
		opts, err := server.ProcessConfigFile(filepath.Join(region, "nats-1.conf"))
		if err != nil {
			t.Fatal(err)
		}
		if other := names[opts.ServerName]; other != "" {
			t.Errorf("%s and %s have a server %s", other, region, opts.ServerName)
		}
		names[opts.ServerName] = region
	}
	stopHub, stopEU, stopUS := runServer(t, hub), runServer(t, eu), runServer(t, us)
	must(as(hub, "nats", "init")...)
	var joining sync.WaitGroup
	for _, region := range []string{eu, us} {
		joining.Go(func() {
			if code, _, errOut := command(t, as(region, "nats", "init")...); code != 0 {
				t.Errorf("%s joins: code %d, %s", region, code, errOut)
			}
		})
	}
	joining.Wait()
	must(as(hub, "policy", "push", bundle("before"))...)
	awaitOutput(t, as(eu, "policy", "show"), "before")
	if code, _, errOut := command(t, as(eu, "nats", "init", "--promote")...); code != 1 || !strings.Contains(errOut, "the origin runs: region hub was heard of") {
		t.Errorf("promoted beside the origin: code %d, %s", code, errOut)
	}

	stopHub()
	seed, err := os.ReadFile(filepath.Join(hub, "seal.nk"))
	if err == nil {
		err = os.WriteFile(filepath.Join(eu, "seal.nk"), seed, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	awaitOutput(t, as(eu, "nats", "init", "--promote"), "KV_LOOP_POLICIES +1 +as it was")
	config(eu, "--region", "eu", "--regions", "us", "--force")
	stopEU()
	runServer(t, eu)
	must(as(eu, "nats", "init")...)
	must(as(eu, "policy", "push", bundle("after"))...)
	if out := must(as(eu, "policy", "show")...); !strings.Contains(out, "after") {
		t.Errorf("the new origin has %s", out)
	}

	config(us, "--join", filepath.Join(eu, "region-us.json"), "--force")
	stopUS()
	runServer(t, us)
	js, err := jetstream.NewWithDomain(dial(t, us, "operator"), "us")
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"KV_LOOP_POLICIES", "KV_LOOP_OVERRIDES"} {
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	must(as(us, "nats", "init")...)
	awaitOutput(t, as(us, "policy", "show"), "after")
	if code, out, _ := command(t, as(us, "status")...); code != 1 || !strings.Contains(out, "From region eu:     KV_LOOP_POLICIES") {
		t.Errorf("status in the third region: code %d, %s", code, out)
	}
}

// commonFlags are the flags of all commands among those of a file; nats init has further ones.
func commonFlags(flags []string, init bool) []string {
	for i := 0; i < len(flags) && !init; {
		if flags[i] == "--origin" || flags[i] == "--regions" { // other commands ignore the variables
			flags = slices.Delete(flags, i, i+2)
			continue
		}
		i += 2
	}
	return flags
}

// awaitOutput runs a command until it succeeds and its output matches.
func awaitOutput(t *testing.T, args []string, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(time.Minute); ; {
		code, out, errOut := command(t, args...)
		if code == 0 && re.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v: code %d, %s%s; want %s", args, code, out, errOut, pattern)
		}
	}
}

// runServer runs the server of a configuration until it is stopped or the test ends. One of a
// region has joined its origin.
func runServer(t *testing.T, dir string) (stop func()) {
	t.Helper()
	opts, err := server.ProcessConfigFile(filepath.Join(dir, "nats-1.conf"))
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	stop = func() { srv.Shutdown(); srv.WaitForShutdown() }
	t.Cleanup(stop)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); len(opts.LeafNode.Remotes) > 0 && srv.NumLeafNodes() == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the region does not join its origin")
		}
	}
	return stop
}

// configured runs a server with users and streams of one partition until the test ends, and returns the folder
// of its configuration.
func configured(t *testing.T, more ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "nats")
	if code, _, errOut := command(t, append([]string{"nats", "config", dir, "--host", natstest.FreeAddr(t), "--monitor-port", "0"}, more...)...); code != 0 {
		t.Fatalf("config: code %d, %s", code, errOut)
	}
	runServer(t, dir)
	if code, _, errOut := command(t, append(append([]string{"nats", "init"}, envFlags(t, filepath.Join(dir, "operator.env"))...), "--partitions", "1")...); code != 0 {
		t.Fatalf("init: code %d, %s", code, errOut)
	}
	return dir
}

// dial connects as a user of a configuration.
func dial(t *testing.T, dir, user string) *nats.Conn {
	t.Helper()
	flags := envFlags(t, filepath.Join(dir, user+".env"))
	settings := natskit.Settings{NKey: filepath.Join(dir, user+".nk"), InboxPrefix: natsperm.InboxPrefix(user)}
	if i := slices.Index(flags, "--nats-tls-ca"); i >= 0 {
		settings.TLSCA = flags[i+1]
	}
	nc, err := settings.Dial(flags[slices.Index(flags, "--nats")+1], user, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// openJS opens JetStream on a connection.
func openJS(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// An event is read by the user who may only follow events, as it is by the operator.
func TestEventsAreReadByTheirSubscriber(t *testing.T) {
	t.Parallel()
	dir := configured(t)
	detector := dial(t, dir, "detector")
	events := func(user string, args ...string) []string {
		return append(append([]string{"events"}, args...), envFlags(t, filepath.Join(dir, user+".env"))...)
	}
	follower, stop := background(t, events("subscriber")...)
	follower.await(t, "unloop: 0 events in the last 1h; waiting for events, until Ctrl-C")
	for _, id := range []string{"first", "second"} {
		e := event.New(event.Detected, id, time.Now())
		e.Data = event.Data{LoopID: id, Policy: "p", Detector: "prompt", Action: "reject"}
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := detector.Publish("loop.detected._.p", body); err != nil {
			t.Fatal(err)
		}
		follower.await(t, "  "+id+"  ")
	}
	if code := stop(); code != 0 || strings.Contains(follower.String(), "ermission") {
		t.Errorf("code %d: %s", code, follower)
	}
	for _, user := range []string{"subscriber", "operator"} {
		if code, out, errOut := command(t, events(user, "--count", "2")...); code != 0 || strings.Count(out, "\n") != 2 || errOut != "" {
			t.Errorf("%s: code %d, %s%s", user, code, out, errOut)
		}
	}
}

// Users of the account of readers list loops, see the status, and take events from the
// durable consumer that an operator made for them.
func TestReadersUseTheCommandsThatTheyNeed(t *testing.T) {
	t.Parallel()
	dir := configured(t)
	ctx := t.Context()
	detector, operator := dial(t, dir, "detector"), dial(t, dir, "operator")
	incident := openloop.Record{Data: event.Data{LoopID: "open-loop", Policy: "p"}, Tenant: "acme"}
	if err := detector.Publish("$KV.LOOP_INCIDENTS.open.x", incident.Append(nil)); err != nil {
		t.Fatal(err)
	}
	status, err := json.Marshal(status.Status{Service: "detector", ID: "d", Host: "host-of-the-detector", Ready: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = detector.Subscribe("loop.status", func(m *nats.Msg) { _ = m.Respond(status) })
	if err = errors.Join(err, detector.Publish("loop.detected._.p", []byte("kept")), detector.Flush()); err != nil {
		t.Fatal(err)
	}
	growth := natskit.Growth{JS: openJS(t, operator), Layout: natskit.Layout{Partitions: 4}.Everything()}
	if _, err := growth.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user string
		args []string
		code int
		want string
	}{
		{"subscriber", []string{"loops"}, 0, "open-loop"},
		{"monitor", []string{"loops"}, 0, "open-loop"},
		{"monitor", []string{"overrides"}, 0, "Nothing is blocked"},
		{"monitor", []string{"status", "--json"}, 1, "host-of-the-detector"}, // no gateway is ready
		{"monitor", []string{"status"}, 1, "Partitions:         growing from 1 to 4: services learn of it (sealing)"},
	} {
		code, out, errOut := command(t, append(c.args, envFlags(t, filepath.Join(dir, c.user+".env"))...)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v as %s: code %d, %s%s; want %q", c.args, c.user, code, out, errOut, c.want)
		}
	}
	if _, err := openJS(t, operator).CreateConsumer(ctx, "LOOP_EVENTS", jetstream.ConsumerConfig{Durable: "subscriber", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	consumer, err := openJS(t, dial(t, dir, "subscriber")).Consumer(ctx, "LOOP_EVENTS", "subscriber")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := msg.DoubleAck(ctx); err != nil || string(msg.Data()) != "kept" {
		t.Errorf("the durable consumer gave %q, and the acknowledgement %v", msg.Data(), err)
	}
	if info, err := consumer.Info(ctx); err != nil || info.AckFloor.Stream != 1 {
		t.Errorf("the consumer is at %+v, %v", info, err)
	}
}

// A growth does not begin while a part runs whose release knows no partitions.
func TestAGrowthIsRefusedWhileAPartKnowsNoPartitions(t *testing.T) {
	t.Parallel()
	dir := configured(t, "--partitions", "2")
	answer := func(text string) *nats.Subscription {
		nc := dial(t, dir, "detector")
		sub, err := nc.Subscribe("loop.status", func(m *nats.Msg) { _ = m.Respond([]byte(text)) })
		if err = errors.Join(err, nc.Flush()); err != nil {
			t.Fatal(err)
		}
		return sub
	}
	answer(`{"service":"detector","id":"new","host":"new-host","version":"9.9.9","partitions":1}`)
	answer(`{"service":"gateway","id":"gateway","host":"gateway-host","version":"0.8.0"}`)
	old := answer(`{"service":"detector","id":"old","host":"old-host","version":"0.8.0"}`)
	init := append([]string{"nats", "init", "--partitions", "2", "--timeout", "30s"}, envFlags(t, filepath.Join(dir, "operator.env"))...)
	code, out, errOut := command(t, init...)
	if code != 1 || !strings.Contains(errOut, "knows no partitions and would count apart: detector 0.8.0 on old-host: replace them") || strings.Contains(errOut, "new-host") {
		t.Errorf("code %d, %s%s", code, out, errOut)
	}
	js := openJS(t, dial(t, dir, "operator"))
	if _, err := js.Stream(t.Context(), "KV_LOOP_COUNTERS_1"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the refused growth made a partition: %v", err)
	}
	if err := old.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	growing, stop := background(t, init...)
	growing.await(t, "From 1 to 2 partitions: services learn of it.")
	stop()
	if scheme, _, err := natskit.ReadPartitions(t.Context(), js); err != nil || scheme.Count != 2 {
		t.Errorf("without the old part: %+v, %v", scheme, err)
	}
}

// A command whose user may not do what it asks for ends at once, and says so.
func TestACommandEndsWhenItsUserMayNot(t *testing.T) {
	t.Parallel()
	dir := configured(t)
	bundle := filepath.Join(dir, "bundle.yaml")
	if err := os.WriteFile(bundle, []byte("bundle_version: 1\npolicies: [{id: a, spec: {prompt: {}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user string
		args []string
		want string
	}{
		{"subscriber", []string{"overrides"}, "may not publish to $JS.API.DIRECT.GET.KV_LOOP_OVERRIDES"},
		{"notifier", []string{"policy", "push", bundle}, "may not publish to $KV.LOOP_POLICIES.bundle"},
		{"monitor", []string{"events"}, "may not subscribe to loop.detected.>"},
		{"embedworker", []string{"nats", "init"}, "may not publish to $JS.API.STREAM.INFO."},
		{"notifier", []string{"backup", filepath.Join(dir, "backup.zip")}, "may not publish to $JS.API.STREAM.INFO.KV_LOOP_COUNTERS"},
	} {
		code, _, errOut := command(t, append(c.args, envFlags(t, filepath.Join(dir, c.user+".env"))...)...)
		if code != 1 || !strings.Contains(errOut, c.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%v as %s: code %d, %q; want one line with %q", c.args, c.user, code, errOut, c.want)
		}
	}
	flags := envFlags(t, filepath.Join(dir, "operator.env"))
	if code, _, errOut := command(t, append([]string{"loops"}, flags[:4]...)...); code != 1 || !strings.Contains(errOut, "set --nats-inbox-prefix") {
		t.Errorf("without its prefix of inboxes: code %d, %s", code, errOut)
	}
}

// envFlags returns the variables in a file as flags.
func envFlags(t *testing.T, file string) (flags []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "UNLOOP_")), "_", "-")
		if _, err := strconv.Atoi(value); flag == "replicas" && err == nil {
			continue // services have it
		}
		flags = append(flags, "--"+flag, value)
	}
	return flags
}
