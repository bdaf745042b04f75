package silences

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/silence"
)

func aSilence(length time.Duration) silence.Silence {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return silence.Silence{Matchers: match.Matchers{"tenant": {"acme"}}, Author: "ops@host", Comment: "deploying", Start: now, End: now.Add(length)}
}

func TestSilencesAreStoredListedAndExpired(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	if all, err := List(t.Context(), js); err != nil || len(all) != 0 {
		t.Fatalf("at first: %v, %v", all, err)
	}
	later, err := Add(t.Context(), js, aSilence(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	sooner, err := Add(t.Context(), js, aSilence(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	all, err := List(t.Context(), js)
	if err != nil || len(all) != 2 || all[0].ID != sooner.ID || all[1].Comment != "deploying" {
		t.Fatalf("listed %+v, %v", all, err)
	}
	if gone, err := Expire(t.Context(), js, later.ID); err != nil || gone.Author != "ops@host" {
		t.Errorf("expired %+v, %v", gone, err)
	}
	if _, err := Expire(t.Context(), js, later.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("expired again: %v", err)
	}
	if all, err = List(t.Context(), js); err != nil || len(all) != 1 {
		t.Errorf("listed %+v, %v", all, err)
	}
}

func TestFaultySilencesAreRefused(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	s := aSilence(-time.Hour)
	s.Matchers, s.Author = match.Matchers{"tenan": {"acme"}}, " "
	if _, err := Add(t.Context(), js, s); err == nil {
		t.Error("a faulty silence is stored")
	}
}

func TestASetFollowsTheBucket(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js, conn := server.JetStream(), server.Service()
	ctx, cancel := context.WithCancel(t.Context())
	set, done := NewSet(), make(chan error, 1)
	go func() {
		done <- set.Follow(ctx, &natskit.Follower{Conn: conn, Layout: server.Layout(), Log: slog.New(slog.DiscardHandler)}, func() {})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	wait := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); len(set.All()) != n; <-time.After(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d silences, want %d", len(set.All()), n)
			}
		}
	}
	s, err := Add(t.Context(), js, aSilence(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	wait(1)
	if _, err := Expire(t.Context(), js, s.ID); err != nil {
		t.Fatal(err)
	}
	wait(0)
}
