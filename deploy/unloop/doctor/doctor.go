// Package doctor finds out whether an Unloop is reachable, sane and fast, and whether it
// stops loops: each finding with what fixes it.
//
// It changes nothing: the loop that it makes raises no incident. It does not know how
// findings are printed.
package doctor

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/status"
)

// State says how bad a finding is.
type State string

// The states. A fault means that loops are not stopped, or requests not answered.
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
	// Mend says what to do; empty if all is well.
	Mend string `json:"mend,omitempty"`
}

// Config says what is examined.
type Config struct {
	// Gateway and Admin are the addresses of a gateway and of an admin port, as URLs.
	Gateway, Admin string
	// Key is what the gateway's clients authenticate with, AdminKey that of the admin
	// port; "" for none.
	Key, AdminKey string
	// Header is sent with the test loops, so that policies for a tenant, project or header
	// match.
	Header http.Header
	// Upstreams are the upstreams that are tried through the gateway.
	Upstreams []string
	// DataDir is the folder in which a NATS server on this machine stores; "" if there is
	// none.
	DataDir string
	// Connect connects to NATS.
	Connect func() (*nats.Conn, error)
	// JetStream opens JetStream on a connection; nil opens that of the server's domain.
	JetStream func(*nats.Conn) (jetstream.JetStream, error)
}

// timeout bounds each step of an examination.
const timeout = 5 * time.Second

// examination is what the checks find out for one another.
type examination struct {
	Config
	nc    *nats.Conn
	js    jetstream.JetStream
	parts []status.Status
	// reachable says that the gateway answers, inMemory that NATS stores nothing on disk.
	reachable, inMemory bool
}

// Examine yields the findings of all checks, one after the other.
func Examine(ctx context.Context, cfg Config) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		e := &examination{Config: cfg}
		defer e.close()
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

func (e *examination) close() {
	if e.nc != nil {
		e.nc.Close()
	}
}

// Parts returns the running parts of one kind.
func Parts(all []status.Status, service string) (found []status.Status) {
	for _, p := range all {
		if p.Service == service {
			found = append(found, p)
		}
	}
	return found
}

// connected adds the findings that need NATS.
func (e *examination) connected(ctx context.Context, nc *nats.Conn) (err error) {
	open := e.JetStream
	if open == nil {
		open = natskit.Settings{}.JetStream
	}
	if e.js, err = open(nc); err != nil {
		return err
	}
	e.nc, e.parts = nc, operator.Parts(ctx, nc)
	return nil
}

// streams are the names of the streams that a system with so many partitions has.
func streams(partitions int) []string { return natskit.Layout{Partitions: partitions}.Streams() }
