package replay

import (
	"encoding/json"
	"fmt"

	"github.com/unloop/unloop/schemas/record"
)

func readRecord(o object, out *sink) {
	body := o["body"]
	delete(o, "body") // it is large, and goes on as it is
	var r record.Record
	rest, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(rest, &r)
	}
	if err != nil {
		out.fail(fmt.Errorf("read a recorded request: %w", err))
		return
	}
	if r.Version < 1 || r.Version > record.Version {
		out.fail(fmt.Errorf("%w: version %d", ErrVersion, r.Version))
		return
	}
	if len(body) == 0 {
		body = r.Bytes
	}
	if len(body) == 0 && r.Length > 0 {
		out.fail(fmt.Errorf("%w: the body of %d bytes was too large", ErrNoMessages, r.Length))
		return
	}
	out.request(Request{
		Source: Recording, Time: r.Time, Method: r.Method, Path: r.Path, Upstream: r.Upstream, Header: r.Header,
		Tenant: r.Tenant, Project: r.Project, Caller: r.Caller, Session: r.Session, User: r.User, Model: r.Model,
		Body: body, Status: r.Status, Stopped: r.Action == "reject" || r.Action == "break", InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, USD: r.USD,
	})
}
