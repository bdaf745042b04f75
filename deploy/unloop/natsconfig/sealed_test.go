package natsconfig_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/status"
)

// A bundle of an attacker's choice, and an override that frees or stops a tenant.
const (
	evilBundle = "bundle_version: 66\npolicies:\n  - {id: evil, spec: {mode: shadow, prompt: {max_hits: 9999}}}\n"
	evilBlock  = `{"action":"block","scope":"tenant","value":"acme","expires_at":"2999-01-01T00:00:00Z"}`
)

// evil are what an attacker would have stored, by target.
var evil = map[string]string{bundleRecord: evilBundle, keyRecord: strings.Repeat("k", 32), blockRecord: evilBlock}

// smuggle has the server write a message of choice to a target, through a record that the
// user may write: by a direct get of it, or, where the server does that, by a consumer that
// delivers it.
func (in *installation) smuggle(user, own, target string, msg nats.Msg) {
	in.t.Helper()
	js := in.jetstream(user)
	bucket := strings.Split(own, ".")[1]
	msg.Subject = own
	before := in.written()
	stream := "KV_" + strings.Split(target, ".")[1]
	if err := js.Conn().PublishMsg(&msg); err != nil {
		in.t.Fatal(err)
	}
	in.await(user+" writes its record", func() bool { return in.written()["KV_"+bucket] > before["KV_"+bucket] })
	if user != natsperm.Gateway {
		body, err := json.Marshal(map[string]any{"stream_name": "KV_" + bucket, "config": map[string]any{
			"name": "evil", "deliver_policy": "last", "ack_policy": "none", "filter_subject": "$KV." + bucket + ".>", "deliver_subject": target, "inactive_threshold": time.Hour,
		}})
		if err != nil {
			in.t.Fatal(err)
		}
		answer, err := js.Conn().Request("$JS.API.CONSUMER.CREATE.KV_"+bucket+".evil.$KV."+bucket+".>", body, patience)
		if err != nil || strings.Contains(string(answer.Data), `"error"`) {
			in.t.Fatalf("%v %s", err, answer.Data)
		}
		if _, err := js.Conn().Request("$JS.API.CONSUMER.DELETE.KV_"+bucket+".evil", nil, patience); err != nil {
			in.t.Fatal(err)
		}
		return
	}
	if err := js.Conn().PublishRequest("$JS.API.DIRECT.GET.KV_"+bucket+"."+own, target, nil); err != nil {
		in.t.Fatal(err)
	}
	in.await(user+" has the server write "+target, func() bool { return in.written()[stream] > before[stream] })
}

// inForce waits until a gateway has the bundle of a number.
func (u *unloop) inForce(g *gateway.Gateway, number string) {
	u.t.Helper()
	u.await("bundle "+number+" is in force", func() bool {
		var s status.Status
		g.Describe(&s)
		return strings.HasPrefix(s.Bundle.Version, number+"-")
	})
}

// tenant sends a request of the tenant acme and returns the status of the answer.
func (u *unloop) tenant() int {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), http.MethodPost, u.gateway+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"`+time.Now().String()+`"}]}`))
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Tenant-ID", "acme")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		u.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// remarks waits until a gateway says of each of some records that it is not used, and nothing
// else.
func (u *unloop) remarks(g *gateway.Gateway, records ...string) {
	u.t.Helper()
	u.await("remarks on "+strings.Join(records, " and "), func() bool {
		all := g.Remarks()
		return len(all) == len(records) && !slices.ContainsFunc(records, func(record string) bool {
			return !slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, record) })
		})
	})
}

// Whoever may ask JetStream anything can have the server write any record. No gateway uses
// one that no operator sealed: those that run keep what they have, one that starts takes the
// last good records, both check requests and say what is wrong, and the operator replaces it.
func TestOnlyAnOperatorPutsRecordsIntoForce(t *testing.T) {
	t.Parallel()
	in := install(t, 1, nil)
	in.prepare(1)
	u := in.start()
	old := u.startGateway()
	u.inForce(old, "1")
	u.loop("again")
	u.remarks(old)
	before := in.written()
	for target, text := range evil {
		in.smuggle(natsperm.Gateway, "$KV.LOOP_SESSIONS.answer.zzz", target, nats.Msg{Data: []byte(text)})
		in.smuggle(natsperm.Gateway, "$KV.LOOP_SESSIONS.answer.zzz", target, nats.Msg{Header: nats.Header{"KV-Operation": {"DEL"}}})
		in.smuggle(natsperm.Gateway, "$KV.LOOP_SESSIONS.answer.zzz", target, nats.Msg{Header: nats.Header{"Status": {"100"}, "Description": {"Idle Heartbeat"}, "Nats-Last-Consumer": {"999"}}})
		in.smuggle(natsperm.Notifier, "$KV.LOOP_NOTIFICATIONS.zzz", target, nats.Msg{Data: []byte(text)})
		in.smuggle(natsperm.Detector, "$KV.LOOP_BLOCKS.zzz", target, nats.Msg{Data: []byte(text)})
	}
	for _, user := range natsperm.Users() { // more than the bucket keeps
		if user.Name != natsperm.Operator && !user.Reads {
			in.attack(user.Name, requests(user), []string{bundleRecord, keyRecord, blockRecord})
		}
	}
	after := in.written()
	if after["KV_LOOP_POLICIES"] < before["KV_LOOP_POLICIES"]+100 || after["KV_LOOP_OVERRIDES"] < before["KV_LOOP_OVERRIDES"]+8 {
		t.Errorf("the streams end at %v, before at %v: the attack tests little", after, before)
	}
	young := u.startGateway()
	if n := u.refusedRecords(); n != 3 {
		t.Errorf("unloop_gateway_refused_records is %g, want 3", n)
	}
	for _, g := range []*gateway.Gateway{old, young} {
		u.gateway = "http://" + g.Addr()
		u.remarks(g, schemas.KeyBundle, schemas.KeyCallerHash, "block.tenant.acme")
		u.inForce(g, "1")
		if status := u.tenant(); status != http.StatusOK {
			t.Errorf("the attacker's block stops a request: status %d", status)
		}
		if status, body := u.send("again", ""); status != http.StatusTooManyRequests {
			t.Errorf("the caller is another one: status %d, %s", status, body)
		}
	}
	u.replace(old, young)
}

// refusedRecords returns what the gateway that was started last counts.
func (u *unloop) refusedRecords() (n float64) {
	u.t.Helper()
	families, err := u.metrics.Gather()
	if err != nil {
		u.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "unloop_gateway_refused_records" {
			for _, m := range family.GetMetric() {
				n += m.GetGauge().GetValue()
			}
		}
	}
	return n
}

// replace has the operator replace what an attacker wrote, for gateways that run. An earlier
// bundle that an attacker has put back stays out of force.
func (u *unloop) replace(gateways ...*gateway.Gateway) {
	t := u.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	js := u.jetstream(natsperm.Operator)
	if stored, err := operator.EnsureCallerHashKey(ctx, js, u.signer()); err != nil || !stored {
		t.Errorf("the key was stored anew: %v, %v", stored, err)
	}
	for _, number := range []string{"2", "3"} {
		if err := u.push(ctx, strings.Replace(bundle, "bundle_version: 1", "bundle_version: "+number, 1)); err != nil {
			t.Fatal(err)
		}
	}
	block := schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: "acme", CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
	ended := block
	ended.EndedAt = time.Now()
	for _, o := range []schemas.Override{block, ended, block} {
		body, err := json.Marshal(o)
		if err == nil {
			err = u.put(ctx, schemas.BucketOverrides, o.Key(), string(body))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range gateways {
		u.inForce(g, "3")
		u.remarks(g)
		u.gateway = "http://" + g.Addr()
		u.await("the operator's block stops requests", func() bool { return u.tenant() == http.StatusForbidden })
	}
	u.smuggle(natsperm.Gateway, "$KV.LOOP_SESSIONS.answer.zzz", bundleRecord, nats.Msg{Data: u.revision(js, schemas.BucketPolicies, schemas.KeyBundle, 2)})
	u.smuggle(natsperm.Gateway, "$KV.LOOP_SESSIONS.answer.zzz", blockRecord, nats.Msg{Data: u.revision(js, schemas.BucketOverrides, block.Key(), 2)})
	u.smuggle(natsperm.Gateway, "$KV.LOOP_SESSIONS.answer.zzz", keyRecord, nats.Msg{Data: u.revision(js, schemas.BucketPolicies, schemas.KeyBundle, 1)})
	for _, g := range append(gateways, u.startGateway()) {
		u.remarks(g, schemas.KeyBundle+" is not used: it is older", "block.tenant.acme is not used: it is older", "not from a trusted key")
		u.inForce(g, "3")
		u.gateway = "http://" + g.Addr()
		if status := u.tenant(); status != http.StatusForbidden {
			t.Errorf("the end of the first block is back: status %d", status)
		}
	}
}

// revision returns the record that was stored under a key so many revisions before the last.
func (in *installation) revision(js jetstream.JetStream, bucket, key string, back int) []byte {
	in.t.Helper()
	kv, err := js.KeyValue(in.t.Context(), bucket)
	if err != nil {
		in.t.Fatal(err)
	}
	all, err := kv.History(in.t.Context(), key)
	if err != nil {
		in.t.Fatal(err)
	}
	return all[len(all)-back].Value()
}
