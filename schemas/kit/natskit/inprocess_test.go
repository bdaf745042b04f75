package natskit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

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
