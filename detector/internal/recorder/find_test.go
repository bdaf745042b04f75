package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/openloop"
)

// An open loop is found by its id while its record and others are rewritten all the time,
// however many others and ended ones there are.
func TestALoopIsFoundWhileItsRecordIsRewritten(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r, other := process(t, s), process(t, s)
	another := openloop.Record{Data: event.Data{LoopID: "other"}}
	nc := s.Conn()
	for i := range 5000 {
		if err := nc.Publish("$KV."+schemas.BucketIncidents+".live.default.of"+fmt.Sprint(i), another.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	f := found("aa", "prompt", time.Minute)
	id := record(t, other, f)
	if _, _, err := r.find(t.Context(), id); err != nil {
		t.Fatalf("right after it began: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			if _, err := other.Record(t.Context(), f); err != nil {
				t.Error(err)
			}
			other.Flush(t.Context())
		}
	})
	for range 50 {
		key, in, err := r.find(t.Context(), id)
		if err != nil || key != f.Key() || in.LoopID != id {
			t.Errorf("found %s under %s: %v", in.LoopID, key, err)
		}
	}
	stop()
	writing.Wait()
}

func TestLoopsThatAreNotOpenAreNotFound(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	r := process(t, s)
	f := found("aa", "prompt", time.Second)
	first := record(t, r, f)
	f.At = f.At.Add(time.Minute)
	if second := record(t, r, f); second == first {
		t.Fatal("the first loop goes on")
	}
	for _, id := range []string{first, "none", "", ">", "*", "a.b", "a b"} {
		if _, _, err := r.find(t.Context(), id); !errors.Is(err, ErrNotOpen) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
