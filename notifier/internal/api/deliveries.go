package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/operator"
)

// Endpoint is an endpoint of the notifier.
type Endpoint struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	State string `json:"state"`
	// Reason is why the endpoint is disabled. Until is the end of a pause.
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// The states of an endpoint.
const (
	Active   = "active"
	Paused   = "paused"
	Disabled = "disabled"
)

// shownDelivery is an entry of the delivery log, with the ids of its loops in place of its
// events.
type shownDelivery struct {
	ID       string             `json:"id"`
	Endpoint string             `json:"endpoint"`
	Status   delivery.Status    `json:"status"`
	Type     event.Type         `json:"type"`
	Loops    []string           `json:"loops"`
	Queued   time.Time          `json:"queued"`
	Next     time.Time          `json:"next,omitzero"`
	Tried    int                `json:"tried"`
	Attempts []delivery.Attempt `json:"attempts"`
	Reason   string             `json:"reason,omitempty"`
}

func showDelivery(r *delivery.Record) shownDelivery {
	out := shownDelivery{
		ID: r.ID, Endpoint: r.Endpoint, Status: r.Status, Loops: []string{}, Queued: r.Queued, Next: r.Next, Tried: r.Tried,
		Attempts: append([]delivery.Attempt{}, r.Attempts...), Reason: r.Reason,
	}
	for i := range r.Events {
		out.Type = r.Events[i].Type
		out.Loops = append(out.Loops, r.Events[i].Data.LoopID)
	}
	return out
}

type deliveryList struct {
	Deliveries []shownDelivery `json:"deliveries"`
	Omitted    bool            `json:"omitted"`
}

var statuses = []delivery.Status{"", delivery.Delivered, delivery.Retrying, delivery.Dead}

func (a *API) getDeliveries(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", defaultLimit, 1, maxList)
	if !ok {
		return
	}
	endpoint, status := r.URL.Query().Get("endpoint"), delivery.Status(r.URL.Query().Get("status"))
	if !slices.Contains(statuses, status) {
		fail(w, http.StatusBadRequest, "bad_parameter", "status must be delivered, retrying or dead; leave it out for all")
		return
	}
	all, omitted := a.board.Deliveries.All()
	out := deliveryList{Deliveries: []shownDelivery{}, Omitted: omitted}
	for i := range all {
		if endpoint != "" && all[i].Endpoint != endpoint || status != "" && all[i].Status != status {
			continue
		}
		if len(out.Deliveries) == limit {
			out.Omitted = true
			break
		}
		out.Deliveries = append(out.Deliveries, showDelivery(&all[i]))
	}
	answer(w, out)
}

func (a *API) getEndpoints(w http.ResponseWriter, _ *http.Request) {
	answerOnly(w, "endpoints", append([]Endpoint{}, a.system.Endpoints()...))
}

func (a *API) resendDelivery(w http.ResponseWriter, r *http.Request) {
	if rec, ok := a.deliver(w, r, operator.Resend, r.PathValue("id")); ok {
		answer(w, showDelivery(&rec))
	}
}

func (a *API) testEndpoint(w http.ResponseWriter, r *http.Request) {
	if rec, ok := a.deliver(w, r, operator.Test, ""); ok {
		answer(w, showDelivery(&rec))
	}
}

func (a *API) enableEndpoint(w http.ResponseWriter, r *http.Request) {
	if _, ok := a.deliver(w, r, operator.Enable, ""); ok {
		answerOnly(w, "endpoint", r.PathValue("endpoint"))
	}
}

// deliver asks a notifier for a delivery. It answers and returns false if that fails, or if
// the endpoint did not accept the message.
func (a *API) deliver(w http.ResponseWriter, r *http.Request, what operator.Delivery, id string) (delivery.Record, bool) {
	var by byActor
	if !body(w, r, &by) {
		return delivery.Record{}, false
	}
	rec, err := a.operator.Deliver(r.Context(), actor(r, by.Actor), what, delivery.Request{Endpoint: r.PathValue("endpoint"), ID: id})
	switch {
	case errors.Is(err, operator.ErrNoNotifier):
		fail(w, http.StatusServiceUnavailable, "no_endpoint_served", "no notifier with endpoints is running")
	case errors.Is(err, operator.ErrUnknown):
		fail(w, http.StatusNotFound, "no_such_delivery", err.Error())
	case err != nil:
		fail(w, http.StatusBadGateway, "not_done", err.Error())
	case what != operator.Enable && len(rec.Attempts) > 0 && rec.Attempts[len(rec.Attempts)-1].Error != "":
		fail(w, http.StatusBadGateway, "not_taken", fmt.Sprintf("%s did not accept the message: %s", rec.Endpoint, rec.Attempts[len(rec.Attempts)-1].Error))
	default:
		return rec, true
	}
	return delivery.Record{}, false
}
