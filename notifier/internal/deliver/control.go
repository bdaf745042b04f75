package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// Errors of operators' requests.
var (
	errNoEndpoint = errors.New(delivery.ErrorNoEndpoint)
	errNoMessage  = errors.New(delivery.ErrorNoMessage)
)

// maxManual bounds the concurrent requests of operators.
const maxManual = 16

// operation is an action of an operator on an endpoint.
type operation func(*endpoint, context.Context, delivery.Request) (delivery.Record, error)

// Serve carries out the requests of operators on NATS until the context ends.
func (p *Pipeline) Serve(ctx context.Context) error {
	slots := make(chan struct{}, maxManual)
	on := func(do operation) func(natskit.Request) {
		return func(r natskit.Request) {
			select {
			case slots <- struct{}{}:
			default:
				answer(r, delivery.Record{}, errors.New("too many requests at once; try again"))
				return
			}
			go func() {
				defer func() { <-slots }()
				record, err := p.carryOut(ctx, r.Data, do)
				answer(r, record, err)
			}()
		}
	}
	stop, err := p.NATS.Respond(micro.Config{
		Name: "unloop-notifier", Version: "0.1.0", QueueGroup: schemas.QueueNotifier, Description: "Delivers events of loops",
	},
		natskit.Responder{Name: "resend", Subject: schemas.SubjectResend, Handle: on((*endpoint).resend)},
		natskit.Responder{Name: "test", Subject: schemas.SubjectTestSend, Handle: on((*endpoint).test)},
		natskit.Responder{Name: "enable", Subject: schemas.SubjectEnable, Handle: on((*endpoint).enable)},
	)
	if err != nil {
		return err
	}
	<-ctx.Done()
	stop()
	for range maxManual {
		slots <- struct{}{}
	}
	return nil
}

func (p *Pipeline) carryOut(ctx context.Context, data []byte, do operation) (delivery.Record, error) {
	var req delivery.Request
	if err := json.Unmarshal(data, &req); err != nil {
		return delivery.Record{}, errors.New("the request is no JSON object")
	}
	e := p.endpoint(req.Endpoint)
	if e == nil {
		return delivery.Record{}, fmt.Errorf("%w: %s", errNoEndpoint, req.Endpoint)
	}
	return do(e, ctx, req)
}

func answer(r natskit.Request, record delivery.Record, err error) {
	reply := delivery.Reply{}
	if err != nil {
		reply.Error = err.Error()
	} else {
		reply.Record = &record
	}
	body, err := json.Marshal(reply)
	if err == nil {
		_ = r.Respond(body) // otherwise the request times out
	}
}

// resend makes one more attempt at a message in the delivery log, whatever its status, and
// returns its entry.
func (e *endpoint) resend(ctx context.Context, req delivery.Request) (delivery.Record, error) {
	stored, err := e.journal.Read(ctx, schemas.DeliveryKey(req.Endpoint, req.ID))
	switch {
	case err != nil:
		return delivery.Record{}, fmt.Errorf("read the delivery log: %w", err)
	case stored.ID == "" || len(stored.Events) == 0:
		return delivery.Record{}, fmt.Errorf("%w: %s", errNoMessage, req.ID)
	}
	return e.manual(ctx, stored.Record)
}

// test sends a message about a loop that does not exist, and then one about its end, so that
// no alert stays open. It returns the entry of the first, or of the second if only that
// failed.
func (e *endpoint) test(ctx context.Context, req delivery.Request) (delivery.Record, error) {
	now := time.Now()
	ev := testEvent("test-"+nuid.Next(), now)
	begun, err := e.manual(ctx, delivery.Record{ID: ev.ID, Endpoint: req.Endpoint, Key: ev.Data.LoopID, Queued: now.UTC(), Events: []event.Event{ev}})
	if err != nil || begun.Status != delivery.Delivered {
		return begun, err
	}
	end := ev
	end.Type, end.Event, end.ID, end.Data.Reason = event.Resolved, event.Resolved, ev.ID+"-end", event.ReasonExpired
	ended, err := e.manual(ctx, delivery.Record{ID: end.ID, Endpoint: req.Endpoint, Key: end.Data.LoopID, Resolved: true, Queued: now.UTC(), Events: []event.Event{end}})
	if err != nil || ended.Status != delivery.Delivered {
		return ended, err
	}
	return begun, nil
}

// testEvent returns an event that is marked as a test.
func testEvent(id string, now time.Time) event.Event {
	ev := event.New(event.Detected, id, now)
	ev.RequestID, ev.Test = "test", true
	ev.Data = event.Data{
		LoopID: id, Detector: "prompt", Policy: "test-message", Mode: event.ModeShadow, Action: "warn",
		HitCount: 6, Threshold: 5, WindowSeconds: 60, FirstSeen: now.Add(-time.Minute).UTC(), LastSeen: now.UTC(), Findings: []event.Finding{},
	}
	return ev
}

// manual makes an attempt for an operator, and logs it.
func (e *endpoint) manual(ctx context.Context, line delivery.Record) (delivery.Record, error) {
	def := e.def.Load()
	a := e.try(ctx, def, &routing.Batch{ID: line.ID, Key: line.Key, Resolved: line.Resolved, Events: line.Events})
	logged := a.logged()
	logged.Manual = true
	switch {
	case a.err == nil:
		line.Status, line.Reason, line.Next = delivery.Delivered, "", time.Time{}
	case line.Status == "":
		line.Status, line.Reason = delivery.Dead, a.err.Error()
	}
	result := Retried
	if a.err == nil {
		result = Delivered
	}
	e.report.results[result].Inc()
	ctx, cancel := e.lasting(ctx)
	defer cancel()
	return e.write(ctx, &line, logged), nil
}

// enable enables an endpoint that answered Gone.
func (e *endpoint) enable(ctx context.Context, req delivery.Request) (delivery.Record, error) {
	err := e.change(ctx, req.Endpoint, func(s *state) time.Duration {
		*s = state{}
		return time.Second
	})
	return delivery.Record{Endpoint: req.Endpoint}, err
}

// Summary is an endpoint as operators see it.
type Summary struct {
	Name, Kind string
	delivery.Endpoint
}

// Endpoints returns the endpoints in use, in no order.
func (p *Pipeline) Endpoints() []Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Summary
	for name, e := range p.using {
		all = append(all, Summary{Name: name, Kind: e.def.Load().Kind, Endpoint: p.states[schemas.EndpointKey(name)]})
	}
	return all
}

// Missed returns a function that counts the events that an endpoint missed.
func (p *Pipeline) Missed(name string) func(uint64) {
	return func(n uint64) { p.metrics.missed.WithLabelValues(name).Add(float64(n)) }
}
