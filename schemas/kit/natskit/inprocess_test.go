package natskit_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// says answers every request with the text before what was asked.
func says(text string) func(natskit.Request) {
	return func(r natskit.Request) { _ = r.Respond(append([]byte(text), r.Data...)) }
}

func TestRespondersOfTheProcessAreAskedPastTheServer(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	far := s.Conn()
	if _, err := far.Subscribe("name", func(m *nats.Msg) { _ = m.Respond([]byte("far")) }); err != nil {
		t.Fatal(err)
	}
	if err := far.Flush(); err != nil {
		t.Fatal(err)
	}
	near := natskit.NewInProcess()
	in := natskit.NewInbox(s.Service(), time.Minute).Prefer(near)
	if got := ask(in, "name", ""); got.data != "far" {
		t.Errorf("without a responder in the process: %v", got)
	}
	stop := near.Serve("name", says("near "))
	if got := ask(in, "name", "x"); got.data != "near x" {
		t.Errorf("with one: %v", got)
	}
	stop()
	if got := ask(in, "name", ""); got.data != "far" {
		t.Errorf("after it has stopped: %v", got)
	}
}

func TestRequestsInOneProcessNeedNoServer(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	nc := s.Service()
	nc.Close()
	near := natskit.NewInProcess()
	near.Serve("name", says("near"))
	if got := ask(natskit.NewInbox(nc, time.Minute).Prefer(near), "name", ""); got.data != "near" || got.err != nil {
		t.Errorf("got %v", got)
	}
}

func TestAnswerInOneProcessCountsOnceAndInTime(t *testing.T) {
	t.Parallel()
	near := natskit.NewInProcess()
	near.Serve("twice", func(r natskit.Request) {
		_ = r.Respond([]byte("first"))
		_ = r.Respond([]byte("second"))
	})
	near.Serve("never", func(natskit.Request) {})
	in := natskit.NewInbox(natstest.StartBare(t).Service(), 20*time.Millisecond).Prefer(near)
	answers := make(chan result, 2)
	in.Request(&nats.Msg{Subject: "twice"}, func(data []byte, err error) { answers <- result{string(data), err} })
	if got := <-answers; got.data != "first" || len(answers) != 0 {
		t.Errorf("got %v and %d more", got, len(answers))
	}
	if got := ask(in, "never", ""); !errors.Is(got.err, natskit.ErrNoAnswer) {
		t.Errorf("got %v, want ErrNoAnswer", got)
	}
}

func TestStoppedResponderHasFinished(t *testing.T) {
	t.Parallel()
	near := natskit.NewInProcess()
	entered, leave := make(chan struct{}), make(chan struct{})
	finished := false
	stop := near.Serve("slow", func(natskit.Request) {
		close(entered)
		<-leave
		finished = true
	})
	in := natskit.NewInbox(natstest.StartBare(t).Service(), time.Minute).Prefer(near)
	go in.Request(&nats.Msg{Subject: "slow"}, func([]byte, error) {})
	<-entered
	go close(leave)
	stop()
	if !finished { // the race detector sees whether it was waited for
		t.Error("stop returned while a call was under way")
	}
}

// Within the process, messages are passed as they are; to the wire they are encoded, and so
// is an answer for a sender of bytes.
func TestMessagesWithinTheProcessAreNotCopied(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Service()
	near := natskit.NewInProcess()
	in := natskit.NewInbox(nc, patience).Prefer(near)
	question, answer := wrapperspb.String("question"), wrapperspb.String("answer")
	var got *wrapperspb.StringValue
	handle := func(r natskit.Request) {
		var err error
		if got, err = natskit.Message[wrapperspb.StringValue](r); err == nil {
			err = r.Answer(answer)
		}
		if err != nil {
			t.Error(err)
		}
	}
	defer near.Serve("near", handle)()
	reply, err := natskit.Call[wrapperspb.StringValue](t.Context(), in, &nats.Msg{Subject: "near"}, question)
	if err != nil || reply != answer || got != question {
		t.Errorf("a copy %v of the answer, %v of the question: %v", reply, got, err)
	}
	data, err := in.Ask(t.Context(), &nats.Msg{Subject: "near", Data: encoded(t, question)})
	if err != nil || !bytes.Equal(data, encoded(t, answer)) || got == question || got.GetValue() != "question" {
		t.Errorf("as bytes: %q, %v: %v", data, got, err)
	}
	stop, err := nc.Respond(micro.Config{Name: "far", Version: "0.0.1", QueueGroup: "q"}, natskit.Responder{Name: "far", Subject: "far", Handle: handle})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	nc.Flush(patience)
	reply, err = natskit.Call[wrapperspb.StringValue](t.Context(), in, &nats.Msg{Subject: "far"}, question)
	if err != nil || reply == answer || reply.GetValue() != "answer" || got == question {
		t.Errorf("over NATS: %v: %v", reply, err)
	}
	if _, err := natskit.Call[wrapperspb.StringValue](t.Context(), in, &nats.Msg{Subject: "far"}, wrapperspb.String("\xff")); err == nil {
		t.Error("a text that is no UTF-8 was sent")
	}
	if _, err := natskit.Call[wrapperspb.StringValue](t.Context(), in, &nats.Msg{Subject: "nobody"}, question); !errors.Is(err, natskit.ErrNoResponder) {
		t.Errorf("without a responder: %v", err)
	}
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestResponderWorksInTheGoroutineOfASenderThatWaits(t *testing.T) {
	t.Parallel()
	near := natskit.NewInProcess()
	waits := make(chan bool, 1)
	near.Serve("name", func(r natskit.Request) {
		waits <- r.Waits()
		_ = r.Answer(wrapperspb.String("answer"))
	})
	in := natskit.NewInbox(natstest.StartBare(t).Service(), time.Minute).Prefer(near)
	asked := wrapperspb.String("question")
	if got, err := natskit.Call[wrapperspb.StringValue](context.Background(), in, &nats.Msg{Subject: "name"}, asked); err != nil || got.GetValue() != "answer" || !<-waits {
		t.Errorf("a call that never ends before its answer: %v, %v", got, err)
	}
	bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := natskit.Call[wrapperspb.StringValue](bounded, in, &nats.Msg{Subject: "name"}, asked); err != nil || <-waits {
		t.Errorf("a call with a deadline waits in its own goroutine (%v)", err)
	}
	if got := ask(in, "name", ""); got.err != nil || <-waits {
		t.Errorf("a request that calls back waits (%v)", got.err)
	}
}
