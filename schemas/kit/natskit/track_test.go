package natskit_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// Track reads what is stored, with the earlier entries, and what comes after: also behind
// messages whose headers look like a server's, and in a stream that was recreated.
func TestTrackReadsEveryEntryInOrder(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	js, conn := s.JetStream(), s.Service()
	subject := "$KV." + schemas.BucketPolicies + ".bundle"
	put := func(value string, header nats.Header) {
		t.Helper()
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: header, Data: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	put("first", nil)
	put("", nats.Header{"Status": {"100"}, "Description": {"Idle Heartbeat"}})
	put("spoof", nats.Header{"Status": {"404"}, "Nats-Sequence": {"900"}, "Nats-Subject": {"$KV.LOOP_POLICIES.other"}, "Nats-Time-Stamp": {"x"}})
	put("", nats.Header{"KV-Operation": {"DEL"}})
	seen := make(chan string, 100)
	f := &natskit.Follower{Conn: conn, Layout: s.Layout(), Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- f.Track(ctx, schemas.BucketPolicies, "bundle", func(entries []jetstream.KeyValueEntry, all bool) {
			for _, e := range entries {
				seen <- fmt.Sprint(all, " ", e.Bucket(), " ", e.Key(), " ", e.Operation(), " ", string(e.Value()))
			}
		})
	}()
	next := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case one := <-seen:
				got = append(got, one)
			case <-time.After(time.Minute):
				t.Fatalf("read %q, want %q", got, want)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	const put1, del1 = " LOOP_POLICIES bundle KeyValuePutOp ", " LOOP_POLICIES bundle KeyValueDeleteOp "
	next("true"+put1+"first", "true"+put1, "true"+put1+"spoof", "true"+del1)
	put("second", nil)
	next("false" + put1 + "second")
	if err := js.DeleteStream(t.Context(), natskit.BucketStream(schemas.BucketPolicies)); err != nil {
		t.Fatal(err)
	}
	if err := conn.EnsureStreams(t.Context(), s.Layout().Of([]string{natskit.BucketStream(schemas.BucketPolicies)})); err != nil {
		t.Fatal(err)
	}
	put("anew", nil)
	next("true" + put1 + "anew")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
