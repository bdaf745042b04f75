package natskit_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// patience bounds what a test waits for; nothing healthy comes near it.
const patience = 30 * time.Second

func TestCatchUpWaitsForMessagesThatWereSentBefore(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	server, client := s.Conn(), s.Conn()
	entered, leave := make(chan struct{}), make(chan struct{})
	handled := 0
	sub, err := server.Subscribe("work", func(*nats.Msg) {
		if handled == 0 {
			close(entered)
			<-leave
		}
		handled++
	})
	if err == nil {
		err = server.Flush()
	}
	for range 3 {
		if err == nil {
			err = client.Publish("work", nil)
		}
	}
	if err == nil {
		err = client.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := sub.Drain(); err != nil {
		t.Fatal(err)
	}
	go close(leave)
	natskit.CatchUp(server, patience)
	if handled != 3 { // the race detector sees whether they were waited for
		t.Errorf("%d of 3 messages were handled", handled)
	}
}

func TestCatchUpDoesNotWaitForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	closed := s.Conn()
	closed.Close()
	start := time.Now()
	natskit.CatchUp(closed, patience)
	if took := time.Since(start); took > patience/2 {
		t.Errorf("took %s", took)
	}
}
