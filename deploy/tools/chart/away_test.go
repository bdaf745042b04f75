package chart

import (
	"fmt"
	"net/http"
	"testing"
)

// TestAGatewayStartsWithNATSAndServesOnWithoutIt stops NATS under a running gateway, and starts another
// one without it.
func TestAGatewayStartsWithNATSAndServesOnWithoutIt(t *testing.T) {
	t.Parallel()
	upstream, _ := model(t)
	address, stop := stoppableServer(t)
	n := node{bin: binaries(t), hosts: map[string]string{"nats:4222": address}}
	all := quick(t, fmt.Sprintf(`{nats: {replicas: 1}, gateway: {upstreams: {openai: %q}}}`, upstream))
	gateway := n.start(t, all, "gateway").ready()
	container := gateway.spec.Containers[0]
	stop()
	gateway.logs("NATS connection lost")
	gateway.probe(container.ReadinessProbe)
	if got := asked(t, http.DefaultClient, gateway.url("http", "http", ""), nil, 1); got[0] != http.StatusOK {
		t.Errorf("without NATS the answer is %d", got[0])
	}
	late := n.start(t, all, "gateway")
	late.probe(container.LivenessProbe)
	if status, text := request(t.Context(), http.DefaultClient, late.url("http", "admin", container.StartupProbe.HTTPGet.Path), nil); status != http.StatusServiceUnavailable {
		t.Errorf("a gateway that never reached NATS answers its startup probe with %d %s", status, text)
	}
}
