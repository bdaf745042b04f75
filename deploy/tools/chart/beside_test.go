package chart

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestOtherGatewaysFindTheServiceThatTheyAsk asks for the service over gRPC that the example of Envoy
// AI Gateway names, from a release of the name in it.
func TestOtherGatewaysFindTheServiceThatTheyAsk(t *testing.T) {
	t.Parallel()
	var asked []struct {
		Name, Namespace string
		Port            int32
	}
	for _, document := range documents(read(t, "../../beside/envoy-ai-gateway/policy.yaml")) {
		var policy struct {
			Spec struct {
				ExtProc []struct {
					BackendRefs []struct {
						Name, Namespace string
						Port            int32
					}
				}
			}
		}
		must(t, yaml.Unmarshal(document, &policy))
		for _, p := range policy.Spec.ExtProc {
			for _, ref := range p.BackendRefs {
				asked = append(asked, ref)
			}
		}
	}
	all := render(t, `{fullnameOverride: unloop, gateway: {beside: {enabled: true}}}`)
	if len(asked) != 1 {
		t.Fatalf("the example asks at %v", asked)
	}
	service := all.services[asked[0].Name]
	if service == nil || service.Spec.Ports[0].Port != asked[0].Port || *service.Spec.Ports[0].AppProtocol != "kubernetes.io/h2c" {
		t.Errorf("the example asks at %v, the service is %v", asked, service)
	}
	if len(render(t, `{}`).services) != len(all.services)-1 {
		t.Error("without gateway.beside the service is there, too")
	}
	if s := render(t, cases(t)["tls"]).services[release+"-unloop-beside"]; s.Spec.Ports[0].Port != 443 || *s.Spec.Ports[0].AppProtocol != "https" {
		t.Errorf("with TLS: %v", s.Spec.Ports)
	}
}

// TestTheGatewayAnswersOverGRPC asks nothing, over cleartext and over TLS, and gets an error of gRPC.
func TestTheGatewayAnswersOverGRPC(t *testing.T) {
	t.Parallel()
	files := existing(t)
	n := node{bin: binaries(t), files: files, hosts: away}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(files["gateway-tls"]["tls.crt"]))
	for scheme, values := range map[string]string{"http": `{gateway: {beside: {enabled: true}}}`, "https": `{gateway: {beside: {enabled: true}, tls: {secret: gateway-tls}}}`} {
		p := n.start(t, quick(t, values), "gateway")
		p.probe(p.spec.Containers[0].LivenessProbe)
		transport := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}
		transport.Protocols.SetUnencryptedHTTP2(scheme == "http")
		transport.Protocols.SetHTTP2(scheme == "https")
		t.Cleanup(transport.CloseIdleConnections)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url(scheme, "beside", "/envoy.service.auth.v3.Authorization/Check"), bytes.NewReader(make([]byte, 5)))
		must(t, err)
		r.Header.Set("Content-Type", "application/grpc")
		res, err := transport.RoundTrip(r)
		must(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		must(t, err)
		must(t, res.Body.Close())
		if got := res.Header.Get("Grpc-Message") + res.Trailer.Get("Grpc-Message"); !strings.Contains(got, "attributes.request.http") {
			t.Errorf("%s: %v %v", scheme, res.Header, res.Trailer)
		}
	}
}
