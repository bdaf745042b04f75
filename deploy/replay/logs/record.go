package logs

import (
	"encoding/json"
	"fmt"

	"github.com/unloop/unloop/schemas/record"
)

func readRecord(o object, out *sink) {
	if o.has("answer_to") {
		readAnswer(o, out)
		return
	}
	body := o["body"]
	delete(o, "body") // it is large, and goes on as it is
	var r record.Record
	if !o.readInto(&r, out) || !known(r.Version, out) {
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
		Source: Recording, ID: r.ID, Time: r.Time, Method: r.Method, Path: r.Path, Upstream: r.Upstream, Header: r.Header,
		Tenant: r.Tenant, TenantVerified: r.TenantVerified, Project: r.Project, Caller: r.Caller, User: r.User,
		Session: r.Session, DerivedSession: r.DerivedSession, Model: r.Model, Body: body,
		Stopped: r.Action == "reject" || r.Action == "break", Operator: r.Operator,
		Outcome: Outcome{Status: r.Status, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, USD: r.USD},
	})
}

func readAnswer(o object, out *sink) {
	var a record.Answer
	if !o.readInto(&a, out) || !known(a.Version, out) {
		return
	}
	out.request(Request{Source: Recording, Time: a.Time, Answer: &Answer{To: a.To, Outcome: Outcome{
		Status: a.Status, InputTokens: a.InputTokens, CachedTokens: a.CachedTokens, OutputTokens: a.OutputTokens, USD: a.USD,
	}}})
}

func (o object) readInto(to any, out *sink) bool {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		out.fail(fmt.Errorf("read a recorded line: %w", err))
	}
	return err == nil
}

func known(version int, out *sink) bool {
	ok := version >= 1 && version <= record.Version
	if !ok {
		out.fail(fmt.Errorf("%w: version %d", ErrVersion, version))
	}
	return ok
}
