// Package doctor checks whether a running Unloop is reachable, healthy and fast, and whether
// it stops loops. Each fault that it finds comes with a remedy.
//
// It changes nothing: the loops that it makes raise no incident. It does not know how
// findings are printed.
package doctor

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/status"
)

// State is the severity of a finding.
type State string

// With a fault, loops are not stopped or requests are not answered.
const (
	OK      State = "ok"
	Warning State = "warning"
	Fault   State = "fault"
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	// Mend says what to do; "" for OK.
	Mend string `json:"mend,omitempty"`
}

// Config says what is examined.
type Config struct {
	// Gateway and Admin are the addresses of a gateway and of an admin port, as URLs.
	Gateway, Admin string
	// Key is an Unloop key for the gateway, AdminKey one for the admin port; "" for none.
	Key, AdminKey string
	// Header is sent with the test loops, to match policies for a tenant, project or header.
	Header http.Header
	// Upstreams are the names of the upstreams to probe through the gateway.
	Upstreams []string
	// DataDir is the storage folder of a NATS server on this machine; "" for none.
	DataDir string
	// Connect connects to NATS, and opens JetStream.
	Connect func() (jetstream.JetStream, error)
}

// timeout bounds each request.
const timeout = 5 * time.Second

// examination holds what earlier checks found out for later ones.
type examination struct {
	Config
	js    jetstream.JetStream // nil if NATS is not reachable
	parts []status.Status
	// reachable says that the gateway answers, inMemory that NATS stores nothing on disk.
	reachable, inMemory bool
}

// Examine makes all checks in turn and yields their findings.
func Examine(ctx context.Context, cfg Config) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		e := &examination{Config: cfg}
		defer func() {
			if e.js != nil {
				e.js.Conn().Close()
			}
		}()
		for _, check := range []func(context.Context) []Finding{
			e.checkNATS, e.checkStreams, e.checkClock, e.checkDisk, e.checkParts, e.checkEmbedder, e.checkGateway, e.checkAdmin, e.checkPolicies,
			e.checkUpstreams, e.checkLatency, e.checkProtection,
		} {
			for _, f := range check(ctx) {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// Parts returns the parts that run one service.
func Parts(all []status.Status, service string) (found []status.Status) {
	for _, p := range all {
		if p.Service == service {
			found = append(found, p)
		}
	}
	return found
}
