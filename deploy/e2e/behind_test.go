package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
)

// A request whose tool calls show no loop does not wait until they are stored: another
// write to the session's record, which would make it wait for a second one, takes them away.
func TestToolCallsWithoutALoopAreStoredBehind(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way func(*system.Config)) {
		s := start(t, echo(t), way)
		js, err := jetstream.New(connect(t, s))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), "KV_"+schemas.BucketSessions)
		if err != nil {
			t.Fatal(err)
		}
		const sample = `unloop_ledger_behind_lost_total{bucket="` + schemas.BucketSessions + `"}`
		deadline := time.Now().Add(backWithin)
		for n := 1; metric(t, s, sample) == 0; n++ { // the gateway has to hear the detector first
			if time.Now().After(deadline) {
				t.Fatal("each request waits until its tool calls are stored")
			}
			if a := send(t, s.URL(), chat(toolSession(n, numbered(`{"path":"%d.go"}`), numbered("package p%d")))); a.status != http.StatusOK {
				t.Fatalf("request %d: status %d", n, a.status)
			}
			info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("$KV."+schemas.BucketSessions+".tool.>"))
			if err != nil {
				t.Fatal(err)
			}
			for key := range info.State.Subjects {
				msg, err := stream.GetLastMsgForSubject(t.Context(), key)
				if err == nil {
					_, err = js.Publish(t.Context(), key, msg.Data)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
