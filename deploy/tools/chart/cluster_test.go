package chart

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	appsv1 "k8s.io/api/apps/v1"
)

// natsFile is the manifest of the servers.
const natsFile = "../../kubernetes/nats.yaml"

// natsObjects returns the objects of the manifest, and its StatefulSet.
func natsObjects(t *testing.T) (*objects, *appsv1.StatefulSet) {
	t.Helper()
	all := newObjects(nil)
	sets := map[string]*appsv1.StatefulSet{}
	for _, document := range documents(read(t, natsFile)) {
		if bytes.Contains(document, []byte("kind: StatefulSet")) {
			must(t, into(sets)("nats", toJSON(t, document)))
		} else {
			must(t, all.decode(document))
		}
	}
	return all, sets["nats"]
}

// Servers have their own volumes and, if possible, nodes; they leave as lame ducks, one at a time,
// and have the time and the rights for that alone.
func TestServersOfNATSLeaveOneByOne(t *testing.T) {
	t.Parallel()
	all, set := natsObjects(t)
	pod, server := set.Spec.Template.Spec, set.Spec.Template.Spec.Containers[0]
	config := all.configMaps["nats"].Data["nats.conf"]
	if command := strings.Join(server.Lifecycle.PreStop.Exec.Command, " "); command != "nats-server --signal ldm=/var/run/nats/nats.pid" || !strings.Contains(config, `pid_file: "/var/run/nats/nats.pid"`) {
		t.Errorf("before the stop: %s", command)
	}
	options, err := optionsOf(t, config)
	if err != nil || time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second < options.LameDuckDuration+options.LameDuckGracePeriod+10*time.Second {
		t.Errorf("%d s are too short for %s and %s: %v", *pod.TerminationGracePeriodSeconds, options.LameDuckDuration, options.LameDuckGracePeriod, err)
	}
	if budget := all.pdbs["nats"]; budget == nil || budget.Spec.MaxUnavailable.IntValue() != 1 || budget.Spec.Selector.MatchLabels["app"] != set.Spec.Template.Labels["app"] {
		t.Errorf("budget %+v", budget)
	}
	terms := pod.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].PodAffinityTerm.LabelSelector.MatchLabels["app"] != set.Spec.Template.Labels["app"] {
		t.Errorf("anti-affinity %+v", terms)
	}
	if claims := set.Spec.VolumeClaimTemplates; len(claims) != 1 || claims[0].Name != "data" || *set.Spec.Replicas != 3 || !*pod.SecurityContext.RunAsNonRoot || !*server.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
		t.Errorf("%d replicas with %+v", *set.Spec.Replicas, claims)
	}
}

// optionsOf reads a configuration of the servers.
func optionsOf(t *testing.T, config string) (*server.Options, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(config, "$POD_NAME", "nats-0")), 0o600))
	return server.ProcessConfigFile(file)
}

// startNATS runs the StatefulSet of the manifest: as many servers, each with its configuration, its
// name and an address of its own. It returns their addresses by name.
func startNATS(t *testing.T) map[string]string {
	t.Helper()
	all, set := natsObjects(t)
	hosts := map[string]string{}
	for i := range int(*set.Spec.Replicas) {
		hosts[fmt.Sprintf("nats-%d.nats", i)] = newAddress()
	}
	for name, address := range hosts {
		config := all.configMaps["nats"].Data["nats.conf"]
		for host, ip := range hosts {
			config = strings.ReplaceAll(config, host, ip)
		}
		startServer(t, strings.NewReplacer("0.0.0.0", address, "$POD_NAME", strings.TrimSuffix(name, ".nats"), "/data", t.TempDir(), "/var/run/nats", t.TempDir()).Replace(config))
	}
	return hosts
}

// startServer runs a NATS server with a configuration, until the test ends or stop is called.
func startServer(t *testing.T, config string) (stop func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	return startConfigured(t, file)
}

// startConfigured runs a NATS server with a file.
func startConfigured(t *testing.T, file string) (stop func()) {
	t.Helper()
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("%v in\n%s", err, read(t, file))
	}
	options.NoSigs, options.NoLog = true, true
	ns, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	go ns.Start()
	stop = func() { ns.Shutdown(); ns.WaitForShutdown() }
	t.Cleanup(stop)
	if !ns.ReadyForConnections(20 * time.Second) {
		t.Fatal("NATS does not accept connections")
	}
	return stop
}

// model is an upstream that answers every request, and says what keys it got.
func model(t *testing.T) (url string, keys chan string) {
	t.Helper()
	keys = make(chan string, 100)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"No."},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(upstream.Close)
	return upstream.URL, keys
}

const prompt = `{"model":"m","messages":[{"role":"user","content":"Are we there yet?"}]}`

// asked sends the same prompt n times, and returns the status of each answer.
func asked(t *testing.T, client *http.Client, url string, headers map[string]string, n int) []int {
	t.Helper()
	var found []int
	for range n {
		status, text := request(t.Context(), client, url+"/v1/chat/completions", headers, prompt)
		found = append(found, status)
		if status == 0 {
			t.Error(text)
		}
	}
	return found
}

// TestTheDefaultsRunAndStopALoop runs every service with the chart's defaults on a cluster of three NATS
// servers, as its streams with three replicas want.
func TestTheDefaultsRunAndStopALoop(t *testing.T) {
	t.Parallel()
	upstream, _ := model(t)
	n := node{bin: binaries(t), hosts: map[string]string{}}
	servers := startNATS(t)
	all := render(t, fmt.Sprintf(`{nats: {urls: ["nats://nats-0.nats:4222", "nats://nats-1.nats:4222", "nats://nats-2.nats:4222"]},
		gateway: {upstreams: {openai: %q}, shutdownDelaySeconds: 0, checkTimeout: 20s}}`, upstream))
	n.hosts = servers
	var pods []*pod
	for _, service := range []string{"detector", "embedworker", "notifier", "gateway"} {
		pods = append(pods, n.start(t, all, service).ready())
	}
	for _, p := range pods {
		if status, text := request(t.Context(), http.DefaultClient, p.url("http", "admin", "/metrics"), nil); status != http.StatusOK || !strings.Contains(text, "unloop_build_info") {
			t.Errorf("%s: metrics: %d", p.name, status)
		}
	}
	gateway := pods[3]
	gateway.logs(`"msg":"serving"`)
	got := fmt.Sprint(asked(t, http.DefaultClient, gateway.url("http", "http", ""), nil, 6))
	if got != "[200 200 200 200 200 429]" {
		t.Errorf("the answers are %s\n%s", got, gateway.log)
	}
}

// TestPoliciesFollowTheirConfigMap replaces the content of the ConfigMap, as Kubernetes does.
func TestPoliciesFollowTheirConfigMap(t *testing.T) {
	t.Parallel()
	upstream, _ := model(t)
	n := node{bin: binaries(t), hosts: oneServer(t)}
	bundle := func(hits int) string {
		return fmt.Sprintf("bundle_version: 1\npolicies:\n  - id: p%d\n    spec:\n      selector: {pathPrefix: /v1/}\n      prompt: {max_hits: %d, window_seconds: 60, cooldown_seconds: 30, action: reject}\n", hits, hits)
	}
	all := render(t, fmt.Sprintf(`{nats: {urls: ["nats://nats:4222"], replicas: 1}, policies: {bundle: %q},
		gateway: {upstreams: {openai: %q}, shutdownDelaySeconds: 0, checkTimeout: 20s}}`, bundle(100), upstream))
	n.start(t, all, "detector").ready()
	gateway := n.start(t, all, "gateway").ready()
	gateway.logs(`"msg":"serving"`)
	url := gateway.url("http", "http", "")
	if got := fmt.Sprint(asked(t, http.DefaultClient, url, nil, 6)); got != "[200 200 200 200 200 200]" {
		t.Errorf("with 100 hits the answers are %s", got)
	}
	gateway.project("/etc/unloop/policies", map[string]string{"policies.yaml": bundle(2)})
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for start := time.Now(); ; <-again.C {
		if status, _ := request(t.Context(), http.DefaultClient, url+"/v1/chat/completions", nil, prompt); status == http.StatusTooManyRequests {
			break
		}
		if time.Since(start) > 30*time.Second {
			t.Fatalf("the new bundle is not followed:\n%s", gateway.log)
		}
	}
}

// oneServer runs a NATS server, and returns its address as the host nats.
func oneServer(t *testing.T) map[string]string {
	t.Helper()
	address, _ := stoppableServer(t)
	return map[string]string{"nats:4222": address}
}

func stoppableServer(t *testing.T) (address string, stop func()) {
	t.Helper()
	address = net.JoinHostPort(newAddress(), "4222")
	return address, startServer(t, fmt.Sprintf("listen: %q\njetstream { store_dir: %q }", address, t.TempDir()))
}
