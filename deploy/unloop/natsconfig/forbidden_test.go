package natsconfig_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
)

// forbidden are acts that no user may do, by user.
var forbidden = []struct {
	user               string
	publish, subscribe []string
}{
	{natsperm.Gateway, []string{
		"$KV.LOOP_COUNTERS.exact.live.p.h", "$KV.LOOP_POLICIES.bundle", "$KV.LOOP_POLICIES.caller-hash-key", "$KV.LOOP_OVERRIDES.block.x", "$KV.LOOP_SESSIONS.tool.live.p.h", "$KV.LOOP_BLOCKS.x", "loop.detected.a.b",
		"loop.cooldown", "loop.release", "loop.audit.release", "loop.beat", "$JS.API.STREAM.CREATE.KV_LOOP_COUNTERS", "$JS.API.STREAM.UPDATE.KV_LOOP_POLICIES",
		"$JS.API.STREAM.DELETE.KV_LOOP_SESSIONS", "$JS.API.STREAM.PURGE.KV_LOOP_POLICIES", "$JS.API.STREAM.MSG.GET.KV_LOOP_COUNTERS", "_INBOX_detector.x",
	}, []string{"loop.check", "_INBOX.x", "_INBOX_detector.>", "$KV.LOOP_POLICIES.>", "loop.detected.>"}},
	{natsperm.Detector, []string{
		"$KV.LOOP_POLICIES.bundle", "$KV.LOOP_POLICIES.caller-hash-key", "$KV.LOOP_OVERRIDES.x", "$KV.LOOP_VECTORS.x", "loop.audit.x", "loop.check", "$JS.API.STREAM.DELETE.KV_LOOP_COUNTERS",
		"$JS.API.STREAM.MSG.GET.KV_LOOP_POLICIES", "$JS.API.CONSUMER.CREATE.KV_LOOP_POLICIES.x.$KV.LOOP_POLICIES.bundle",
	}, []string{"_INBOX_operator.>", "$KV.LOOP_POLICIES.>", "loop.semantic"}},
	{natsperm.Embedworker, []string{
		"$KV.LOOP_POLICIES.bundle", "$KV.LOOP_COUNTERS.x", "loop.detected.a.b", "loop.check", "$JS.API.STREAM.MSG.GET.KV_LOOP_SESSIONS", "$JS.API.CONSUMER.CREATE.LOOP_EVENTS.x",
	}, []string{"loop.check", "$KV.>"}},
	{natsperm.Notifier, []string{
		"$KV.LOOP_POLICIES.bundle", "$KV.LOOP_OVERRIDES.block.x", "$KV.LOOP_COUNTERS.x", "$KV.LOOP_INCIDENTS.x", "loop.detected.a.b", "loop.check", "$JS.API.STREAM.DELETE.LOOP_EVENTS",
	}, []string{"loop.check", "loop.semantic", "$KV.LOOP_POLICIES.>"}},
	{natsperm.Subscriber, []string{
		"loop.detected.a.b", "loop.resolved.a.b", "loop.release", "loop.check", "$KV.LOOP_POLICIES.bundle", "$JS.API.DIRECT.GET.KV_LOOP_POLICIES.$KV.LOOP_POLICIES.bundle",
		"$JS.API.STREAM.MSG.GET.KV_LOOP_POLICIES", "$JS.API.CONSUMER.CREATE.LOOP_EVENTS.x", "$JS.API.STREAM.LIST",
	}, []string{">", "loop.>", "loop.check", "$KV.LOOP_POLICIES.>", "_INBOX_operator.>"}},
	{natsperm.Operator, []string{
		"$KV.LOOP_COUNTERS.x", "loop.detected.a.b", "loop.cooldown", "loop.beat", "$JS.API.STREAM.CREATE.OTHER",
	}, []string{"loop.check", "_INBOX_gateway.>", "$JS.API.>"}},
	{natsperm.Monitor, []string{
		"loop.release", "loop.check", "$KV.LOOP_POLICIES.bundle", "$JS.API.STREAM.MSG.GET.LOOP_EVENTS", "$JS.API.DIRECT.GET.LOOP_EVENTS", "$JS.API.STREAM.DELETE.LOOP_EVENTS",
		"$JS.API.CONSUMER.CREATE.LOOP_EVENTS.x",
	}, []string{"loop.check", "loop.detected.>", "$KV.>"}},
}

// What a user may not do is refused by the server, counted and logged in plain words, and
// changes nothing.
func TestWhatIsForbiddenIsRefusedAndLogged(t *testing.T) {
	t.Parallel()
	in := install(t, 1, nil)
	in.prepare(1)
	before := messages(t, in)
	for _, f := range forbidden {
		var log lines
		conn := in.connect(f.user, log.log())
		for _, subject := range f.publish {
			refused := conn.Refused(natskit.ActionPublish)
			if err := conn.Publish(subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			in.await(f.user+" must not publish to "+subject, func() bool { return conn.Refused(natskit.ActionPublish) > refused })
		}
		for _, subject := range f.subscribe {
			refused := conn.Refused(natskit.ActionSubscribe)
			if _, err := conn.Subscribe(subject, func(*nats.Msg) { t.Errorf("%s got a message of %s", f.user, subject) }); err != nil {
				t.Fatal(err)
			}
			in.await(f.user+" must not subscribe to "+subject, func() bool { return conn.Refused(natskit.ActionSubscribe) > refused })
		}
		in.awaitLine(&log, "NATS refused an action of this user", "act=publish", "subject="+f.publish[0], "it may not publish to")
		in.awaitLine(&log, "NATS refused an action of this user", "act=subscribe", "it may not subscribe to")
	}
	if after := messages(t, in); after != before {
		t.Errorf("the streams have %d messages after what is forbidden, %d before", after, before)
	}
}

// messages counts the messages of all streams.
func messages(t *testing.T, in *installation) (n uint64) {
	t.Helper()
	list := in.jetstream(natsperm.Monitor).ListStreams(t.Context())
	for info := range list.Info() {
		n += info.State.Msgs
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// A service that may not create a stream says at once what to do, and works as soon as
// the operator has done it.
func TestAServiceWaitsForTheStreamThatItMayNotCreate(t *testing.T) {
	t.Parallel()
	in := install(t, 1, nil)
	var log lines
	conn := in.connect(natsperm.Gateway, log.log())
	layout := natskit.Layout{}.Of([]string{natskit.BucketStream(schemas.BucketOverrides)})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- conn.EnsureStreams(ctx, layout) }()
	go conn.Tend(ctx, layout)
	in.awaitLine(&log, "JetStream is not ready", "KV_LOOP_OVERRIDES", "unloop nats init")
	if took := time.Since(began); took > patience/4 {
		t.Errorf("it said so after %s", took)
	}
	in.await("readiness has the reason", func() bool {
		err := conn.Ready()
		return err != nil && strings.Contains(err.Error(), "unloop nats init")
	})
	if n := conn.Refused(natskit.ActionPublish); n != 1 {
		t.Errorf("it asked for the stream %d times", n)
	}
	in.prepare(1)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "stream is missing"); n != 1 {
		t.Errorf("it said %d times that the stream is missing\n%s", n, log.String())
	}
	in.await("readiness", func() bool { return conn.Ready() == nil })
}
