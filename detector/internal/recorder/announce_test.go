package recorder

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// A stream whose leader has changed refuses the id of an event for as long as the
// copy that the old leader took is not stored.
func TestAnEventWhoseCopyIsUnderWayIsStoredAndNoFault(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	if err := s.JetStream().DeleteStream(t.Context(), schemas.StreamEvents); err != nil {
		t.Fatal(err)
	}
	answers := []string{
		`{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}`,
		`{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}`,
		`{"stream":"` + schemas.StreamEvents + `","seq":1,"duplicate":true}`,
	}
	asked := 0
	nc := s.Conn()
	_, err := nc.Subscribe(string(event.Detected)+".>", func(m *nats.Msg) {
		_ = m.Respond([]byte(answers[min(asked, len(answers)-1)]))
		asked++
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := process(t, s)
	record(t, r, found("aa", "prompt", time.Minute))
	r.announcing.Wait()
	if in, _ := stored(t, s, "aa"); !in.Announced {
		t.Error("the event does not count as stored")
	}
	if err := r.nc.Ready(); err != nil {
		t.Errorf("the stream counts as broken: %v", err)
	}
}
