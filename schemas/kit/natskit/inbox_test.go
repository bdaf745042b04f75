package natskit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// result is the answer to a request, or its error.
type result struct {
	data string
	err  error
}

// ask is Request that waits.
func ask(in *natskit.Inbox, subject, data string) result {
	done := make(chan result, 2) // a second answer would be seen
	in.Request(&nats.Msg{Subject: subject, Data: []byte(data)}, func(data []byte, err error) {
		done <- result{string(data), err}
	})
	return <-done
}

func TestEachRequestGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	server := s.Conn()
	if _, err := server.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	in := natskit.NewInbox(s.Service(), time.Minute)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			want := fmt.Sprint("message ", i)
			if got := ask(in, "echo", want); got.data != want || got.err != nil {
				t.Errorf("%s: answer %q, %v", want, got.data, got.err)
			}
		})
	}
	all.Wait()
}

func TestWhyThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	silent := s.Conn()
	if _, err := silent.Subscribe("silence", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := silent.Flush(); err != nil {
		t.Fatal(err)
	}
	closed := s.Service()
	closed.Close()
	for name, c := range map[string]struct {
		nc      *natskit.Conn
		subject string
		timeout time.Duration
		want    error
	}{
		"nobody listens":      {s.Service(), "nobody", patience, natskit.ErrNoResponder},
		"nobody answers":      {s.Service(), "silence", 20 * time.Millisecond, natskit.ErrNoAnswer},
		"connection is gone":  {closed, "silence", patience, nats.ErrConnectionClosed},
		"message is too long": {s.Service(), "silence", patience, nats.ErrMaxPayload},
	} {
		data := "?"
		if errors.Is(c.want, nats.ErrMaxPayload) {
			data = string(make([]byte, 2<<20))
		}
		if got := ask(natskit.NewInbox(c.nc, c.timeout), c.subject, data); !errors.Is(got.err, c.want) {
			t.Errorf("%s: %v, want %v", name, got.err, c.want)
		}
	}
}

func TestEmptyAnswerIsAnAnswer(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	server := s.Conn()
	if _, err := server.Subscribe("empty", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := ask(natskit.NewInbox(s.Service(), time.Minute), "empty", ""); got != (result{}) {
		t.Errorf("answer %q, %v", got.data, got.err)
	}
}

func TestAskWaitsForTheAnswerOrTheContext(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	nc := s.Conn()
	_, err := nc.Subscribe("known", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	if err == nil {
		_, err = nc.Subscribe("silent", func(*nats.Msg) {})
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := natskit.NewInbox(s.Service(), patience)
	if got, err := in.Ask(t.Context(), &nats.Msg{Subject: "known", Data: []byte("x")}); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := in.Ask(t.Context(), &nats.Msg{Subject: "nobody"}); !errors.Is(err, natskit.ErrNoResponder) {
		t.Errorf("without a responder: %q, %v", got, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if got, err := in.Ask(ctx, &nats.Msg{Subject: "silent"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %q, %v", got, err)
	}
}
