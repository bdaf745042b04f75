package e2e

import (
	"encoding/json"
	"os"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// validated reads a file of Envoy's into a message, by Envoy's own rules.
func validated(t *testing.T, file string, into interface {
	proto.Message
	ValidateAll() error
}) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := into.ValidateAll(); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// The examples for Envoy are what Envoy's protocol buffers accept, in each part.
func TestExamplesForEnvoyAreValid(t *testing.T) {
	t.Parallel()
	var all bootstrapv3.Bootstrap
	validated(t, "../beside/envoy/ext_proc.yaml", &all)
	var manager hcmv3.HttpConnectionManager
	if err := all.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&manager); err != nil {
		t.Fatal(err)
	}
	var filter extprocv3.ExternalProcessor
	if err := manager.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(&filter); err != nil {
		t.Fatal(err)
	}
	for _, m := range []interface{ ValidateAll() error }{&manager, &filter} {
		if err := m.ValidateAll(); err != nil {
			t.Error(err)
		}
	}
	if !filter.GetFailureModeAllow() {
		t.Error("requests do not pass while Unloop is away")
	}
	var authz authzv3.ExtAuthz
	var asked hcmv3.HttpFilter
	validated(t, "../beside/envoy/ext_authz.yaml", &asked)
	if err := asked.GetTypedConfig().UnmarshalTo(&authz); err != nil || authz.ValidateAll() != nil || !authz.GetFailureModeAllow() {
		t.Errorf("%v, %v", err, authz.ValidateAll())
	}
}
