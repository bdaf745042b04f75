package chart

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// away replaces the names of other parts by an address at which nothing listens.
var away = map[string]string{
	"tls://nats-0.nats:4222": "tls://127.0.0.1:1", "tls://nats-1.nats:4222": "tls://127.0.0.1:1", "tls://nats-2.nats:4222": "tls://127.0.0.1:1",
	"nats://nats:4222": "nats://127.0.0.1:1", "nats://nats.nats.svc": "nats://127.0.0.1:1",
	"otel-collector.observability:4318": "127.0.0.1:1", "https://id.example.com": "https://127.0.0.1:1",
}

// quick returns the objects of a set of values, whose pods stop at once.
func quick(t *testing.T, values string) *objects {
	t.Helper()
	given := parse(t, values)
	gateway, _ := given["gateway"].(map[string]any)
	if gateway == nil {
		gateway = map[string]any{}
		given["gateway"] = gateway
	}
	gateway["shutdownDelaySeconds"] = 0
	gateway["checkTimeout"] = "20s"
	return renderValues(t, given)
}

// TestEveryContainerStartsWithItsFlags starts each container of each set of values: the binary knows all
// flags and variables, reads the files of its secrets, and answers its liveness probe. NATS is away.
func TestEveryContainerStartsWithItsFlags(t *testing.T) {
	t.Parallel()
	bin := binaries(t)
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := quick(t, values)
			n := node{bin: bin, files: existing(t), hosts: away}
			for _, d := range all.deployments {
				service := d.Labels[component]
				if name == "onnx" && service == "embedworker" {
					n.expectNoModel(t, all)
					continue
				}
				p := n.start(t, all, service)
				p.probe(p.spec.Containers[0].LivenessProbe)
			}
		})
	}
}

// expectNoModel expects a worker whose volume has no model to say so.
func (n node) expectNoModel(t *testing.T, all *objects) {
	t.Helper()
	p := n.startFailing(t, all, "embedworker")
	<-p.exited
	if log := p.log.String(); !strings.Contains(log, "the model is not installed") || strings.Contains(log, "no flag has it") {
		t.Errorf("without a model in its volume the worker says\n%s", log)
	}
}

// TestAdminPortsAskForTheirKey asks each service for its metrics as the ServiceMonitor has Prometheus do.
func TestAdminPortsAskForTheirKey(t *testing.T) {
	t.Parallel()
	files := existing(t)
	n := node{bin: binaries(t), files: files, hosts: away}
	all := quick(t, `{adminAuth: {secret: {name: unloop-admin, key: keys}, prometheusKey: prometheus}, metrics: {serviceMonitor: {enabled: true}}}`)
	for name, monitor := range all.monitors {
		p := n.start(t, all, all.deployments[name].Labels[component])
		p.probe(p.spec.Containers[0].LivenessProbe)
		endpoint := monitor.Spec.Endpoints[0]
		credentials := endpoint.Authorization.Credentials
		url := p.url("http", endpoint.Port, endpoint.Path)
		if status, _ := request(t.Context(), http.DefaultClient, url, nil); status != http.StatusUnauthorized {
			t.Errorf("%s: without a key: %d", name, status)
		}
		key := map[string]string{"Authorization": endpoint.Authorization.Type + " " + files[credentials.Name][credentials.Key]}
		if status, text := request(t.Context(), http.DefaultClient, url, key); status != http.StatusOK {
			t.Errorf("%s: with Prometheus's key: %d %s", name, status, text)
		}
	}
}

// TestTheGatewaySpeaksTLSAndPutsKeysIn sends requests as clients with a key of Unloop's, over TLS.
func TestTheGatewaySpeaksTLSAndPutsKeysIn(t *testing.T) {
	t.Parallel()
	upstream, keys := model(t)
	n := node{bin: binaries(t), files: existing(t), hosts: oneServer(t)}
	all := quick(t, fmt.Sprintf(`{nats: {replicas: 1}, gateway: {tls: {secret: gateway-tls}, upstreams: {openai: %q},
		upstreamKeys: {openai: {name: provider-keys, key: openai}}, auth: {keysSecret: {name: unloop-keys, key: keys}}}}`, upstream))
	n.start(t, all, "detector").ready()
	gateway := n.start(t, all, "gateway").ready()
	gateway.logs(`"msg":"serving"`)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(n.files["gateway-tls"]["tls.crt"]))
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}}
	url := gateway.url("https", "http", "")
	if got := asked(t, client, url, nil, 1); got[0] != http.StatusUnauthorized {
		t.Errorf("without a key: %d", got[0])
	}
	got := fmt.Sprint(asked(t, client, url, map[string]string{"Authorization": "Bearer " + gatewayKey}, 6))
	if got != "[200 200 200 200 200 429]" {
		t.Errorf("the answers are %s\n%s", got, gateway.log)
	}
	if key := <-keys; key != "Bearer sk-openai-of-the-tests" {
		t.Errorf("the upstream got %q", key)
	}
	if status, _ := request(t.Context(), http.DefaultClient, gateway.url("http", "http", "/v1/models"), nil); status == http.StatusOK {
		t.Error("the gateway also answers without TLS")
	}
}
