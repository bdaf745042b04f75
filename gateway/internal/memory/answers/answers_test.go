package answers_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func newStore(t *testing.T, s *natstest.Server) *answers.Store {
	t.Helper()
	store, err := answers.NewStore(s.Service())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func calls(tools ...string) []*checkpb.ToolCall {
	all := make([]*checkpb.ToolCall, len(tools))
	for i, tool := range tools {
		all[i] = &checkpb.ToolCall{Tool: tool, Call: []byte("0123456789abcdef"), Id: []byte("fedcba9876543210"), Poll: true, Provided: true}
	}
	return all
}

func TestWhatOneGatewayRemembersEveryOneKnows(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	a, b := newStore(t, s), newStore(t, s)
	if err := errors.Join(a.Put(t.Context(), "me", "resp_1", "5e55"), a.PutCalls(t.Context(), "me", "resp_1", calls("read", "bash"))); err != nil {
		t.Fatal(err)
	}
	session, err := b.Session(t.Context(), "me", "resp_1")
	if err != nil || session != "5e55" {
		t.Errorf("session %q, %v", session, err)
	}
	got, err := b.Calls(t.Context(), "me", "resp_1", false)
	if diff := cmp.Diff(calls("read", "bash"), got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("calls: %v %s", err, diff)
	}
	if _, err := b.Session(t.Context(), "another", "resp_1"); !errors.Is(err, answers.ErrUnknown) {
		t.Errorf("another caller's session: %v", err)
	}
	if _, err := b.Calls(t.Context(), "another", "resp_1", false); !errors.Is(err, answers.ErrUnknown) {
		t.Errorf("another caller's calls: %v", err)
	}
}

func TestAConversationsCallsAreThoseOfItsNewestAnswer(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	a, b := newStore(t, s), newStore(t, s)
	for _, tool := range []string{"read", "bash"} {
		if err := a.PutCalls(t.Context(), "me", "conv_1", calls(tool)); err != nil {
			t.Fatal(err)
		}
		got, err := b.Calls(t.Context(), "me", "conv_1", true)
		if err != nil || len(got) != 1 || got[0].GetTool() != tool {
			t.Errorf("calls %v, %v; want %s", got, err, tool)
		}
	}
}

func TestWhatIsKeptOfAnAnswerEndsWithinADay(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	if err := newStore(t, s).PutCalls(t.Context(), "me", "resp_1", calls("read")); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(s.Conn())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "KV_"+schemas.BucketSessions)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+schemas.BucketSessions+"."+schemas.AnswerCallsKey(answers.Key("me", "resp_1")))
	if err != nil || msg.Header.Get(jetstream.MsgTTLHeader) != "86400" {
		t.Errorf("%v, %v", msg, err)
	}
}

func TestAnAskerIsKnownAtEveryGateway(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	a, b := newStore(t, s), newStore(t, s)
	asker := &checkpb.AnswerAsker{Caller: "me", Open: calls("read"), ReservedAt: 5}
	if err := a.PutAsker(t.Context(), "me", "resp_1", asker); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]*answers.Store{"its own": a, "another": b} {
		got, err := store.Asker(t.Context(), "me", "resp_1")
		if diff := cmp.Diff(asker, got, protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%s gateway: %v %s", name, err, diff)
		}
	}
	if _, err := b.Asker(t.Context(), "me", "resp_2"); !errors.Is(err, answers.ErrUnknown) {
		t.Errorf("another answer: %v", err)
	}
}

func TestAnAnswerIsFinishedOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	a, b := newStore(t, s), newStore(t, s)
	for i, c := range []struct {
		store *answers.Store
		id    string
		want  bool
	}{{a, "resp_1", true}, {b, "resp_1", false}, {a, "resp_1", false}, {b, "resp_2", true}} {
		if first, err := c.store.Finish(t.Context(), "me", c.id); err != nil || first != c.want {
			t.Errorf("call %d: first %v, %v; want %v", i, first, err, c.want)
		}
	}
}

// Without a bucket a gateway knows what it has seen itself.
func TestAGatewayWithoutABucketKnowsItsOwnAnswers(t *testing.T) {
	t.Parallel()
	store := newStore(t, natstest.StartBare(t))
	err := store.Put(t.Context(), "me", "resp_1", "5e55")
	if err == nil {
		t.Error("an answer was kept nowhere, and nobody said so")
	}
	if session, err := store.Session(t.Context(), "me", "resp_1"); err != nil || session != "5e55" {
		t.Errorf("session %q, %v", session, err)
	}
	_ = store.PutCalls(t.Context(), "me", "conv_1", calls("read")) // it errs, as above
	if got, err := store.Calls(t.Context(), "me", "conv_1", true); err != nil || len(got) != 1 {
		t.Errorf("calls %v, %v", got, err)
	}
	if _, err := store.Session(t.Context(), "me", "resp_2"); err == nil || errors.Is(err, answers.ErrUnknown) {
		t.Errorf("an answer that nobody can look up: %v", err)
	}
	if first, err := store.Finish(t.Context(), "me", "resp_1"); first || err == nil {
		t.Errorf("finished: %v, %v", first, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := store.Session(ctx, "me", "resp_3"); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that left: %v", err)
	}
}

func TestWhatIsNoMessageIsAnError(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	store := newStore(t, s)
	js, err := jetstream.New(s.Conn())
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.KeyValue(t.Context(), schemas.BucketSessions)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(t.Context(), schemas.AnswerCallsKey(answers.Key("me", "resp_1")), []byte("\xff")); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Calls(t.Context(), "me", "resp_1", false); err == nil || len(got) > 0 {
		t.Errorf("calls %v", got)
	}
}
