package service

import (
	"encoding/json"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/status"
)

// Describer is a service that adds to its status.
type Describer interface {
	Describe(*status.Status)
}

// refusedFor is how long a refusal by the server stays in the status.
const refusedFor = 10 * time.Minute

// reporter answers requests for the status of a service.
type reporter struct {
	base status.Status
	svc  Service
	conn *natskit.Conn
}

func newReporter(name string, svc Service, conn *natskit.Conn) *reporter {
	host, _ := os.Hostname() // without a name the host is empty
	return &reporter{svc: svc, conn: conn, base: status.Status{
		Service: name, ID: nuid.Next(), Host: host, Version: Version(), Started: time.Now().UTC(),
	}}
}

// status returns the current status.
func (r *reporter) status() status.Status {
	s := r.base
	if err := r.svc.Readiness().Err(); err != nil {
		s.Reason = err.Error()
	}
	s.Ready = s.Reason == ""
	if r.conn.Up() {
		s.Server = r.conn.NATS().ConnectedServerName()
	}
	s.Refused = r.conn.RefusedWithin(refusedFor)
	s.MissingReplicas = r.conn.Lacking()
	s.Remarks = remarksOf(r.svc)
	if d, ok := r.svc.(Describer); ok {
		d.Describe(&s)
	}
	return s
}

func (r *reporter) answer(msg *nats.Msg) {
	if msg.Reply == "" {
		return
	}
	if body, err := json.Marshal(r.status()); err == nil {
		_ = r.conn.Publish(msg.Reply, body) // the requester will ask again
	}
}

// serve answers until the connection is closed.
func (r *reporter) serve() error {
	_, err := r.conn.Subscribe(schemas.SubjectStatus, r.answer)
	return err
}

// Version returns the version of the release or module or, in a build of a checkout, an
// abbreviated revision.
func Version() string {
	switch b := BuildInfo(); {
	case b.Version != unknown && b.Version != "(devel)":
		return b.Version
	case b.Revision != unknown:
		return b.Revision[:min(len(b.Revision), 12)]
	}
	return "development"
}
