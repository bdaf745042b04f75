package owed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func keyOf(caller, body string) Key {
	from := &request.Subject{Identity: &checkpb.Identity{Caller: caller}}
	return KeyOf(from, &request.Request{Body: &request.Body{Bytes: []byte(body)}})
}

var hinted = &checkpb.Finding{Policy: "p", Action: checkpb.Action_ACTION_HINT}

func TestEveryGatewayKnowsWhatIsOwedAndWhatWasGiven(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	one, two := New(s.Service(), time.Now), New(s.Service(), time.Now)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	heard := make(chan struct{}, 8)
	stop, err := two.nc.Subscribe(schemas.SubjectOwed, func(m *nats.Msg) { two.learn(m); heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	two.nc.Flush(time.Minute)
	go func() { ended <- one.Follow(ctx) }()
	key := keyOf("me", "{}")
	one.Keep(key, hinted)
	for !two.Any() {
		<-heard
	}
	if !proto.Equal(two.Of(key), hinted) || two.Of(keyOf("you", "{}")) != nil || two.Of(keyOf("me", "[]")) != nil {
		t.Error("another gateway does not know of the hint, or takes it for another request's")
	}
	one.Drop(key)
	for two.Any() {
		<-heard
	}
	if one.Any() {
		t.Error("a hint is still owed where it was given")
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What a gateway tells one that starts may be overtaken by the news that the hint was given.
func TestAHintThatWasGivenIsNotOwedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, key := New(nil, time.Now), keyOf("me", "{}")
		tell := func(f *checkpb.Finding) {
			data, err := proto.Marshal(&checkpb.Owed{Caller: "me", Body: key.body[:], Finding: f})
			if err != nil {
				t.Fatal(err)
			}
			h.learn(&nats.Msg{Data: data})
		}
		tell(nil)
		if tell(hinted); h.Any() {
			t.Error("owed by old news")
		}
		<-time.After(retellEvery)
		if tell(hinted); !h.Any() {
			t.Error("a later hint is not owed")
		}
	})
}

func TestAHintIsNotOwedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, key := New(nil, time.Now), keyOf("me", "{}")
		h.keep(key, hinted)
		<-time.After(ttl - time.Second)
		if h.Of(key) == nil {
			t.Error("forgotten early")
		}
		<-time.After(time.Second)
		if h.Of(key) != nil {
			t.Error("not forgotten")
		}
	})
}

func TestOwedHintsAreBounded(t *testing.T) {
	t.Parallel()
	h := New(nil, time.Now)
	for i := range maxHints + 10 {
		h.keep(keyOf("me", string(rune(i))), hinted)
	}
	if n := len(h.hints); n > maxHints {
		t.Errorf("%d hints are owed", n)
	}
}

func TestMessagesThatTellNothingAreIgnored(t *testing.T) {
	t.Parallel()
	h, key := New(nil, time.Now), keyOf("me", "{}")
	stops := &checkpb.Finding{Action: checkpb.Action_ACTION_REJECT}
	for name, msg := range map[string]*checkpb.Owed{
		"a block":          {Caller: "me", Body: key.body[:], Finding: stops},
		"no request":       {Caller: "me", Finding: hinted},
		"too much to read": {Caller: string(make([]byte, maxMessage)), Body: key.body[:], Finding: hinted},
	} {
		data, err := proto.Marshal(msg)
		if err != nil {
			t.Fatal(err)
		}
		h.learn(&nats.Msg{Data: data})
		if h.Any() {
			t.Errorf("%s was taken for a hint", name)
		}
	}
}
