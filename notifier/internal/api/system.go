package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/notifier/internal/watch"
	"github.com/unloop/unloop/schemas"
)

// policies are the bundles in force, and the last pushed one.
type policies struct {
	Pushed  *pushed         `json:"pushed,omitempty"`
	InForce []board.InForce `json:"in_force"`
}

type pushed struct {
	Version string    `json:"version,omitempty"`
	At      time.Time `json:"at"`
	Fault   string    `json:"fault,omitempty"`
}

func (a *API) getPolicies(w http.ResponseWriter, r *http.Request) {
	out := policies{InForce: a.system.Bundles(r.Context())}
	if version, at, fault := a.board.Bundle.Get(); !at.IsZero() {
		out.Pushed = &pushed{version, at.UTC(), fault}
	}
	answer(w, out)
}

// health is the state of the system's parts.
type health struct {
	watch.Health
	// ReadOnly is why clients of this port can't change anything; empty if they can.
	ReadOnly string    `json:"read_only,omitempty"`
	AsOf     time.Time `json:"as_of"`
}

func (a *API) getHealth(w http.ResponseWriter, r *http.Request) {
	answer(w, health{a.system.Health(r.Context()), a.refuse(), a.now().UTC()})
}

// maxList bounds lists of actions and deliveries.
const maxList = 500

// getAudit answers with the actions of operators, newest first.
func (a *API) getAudit(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", defaultLimit, 1, maxList)
	if !ok {
		return
	}
	all, err := a.operator.Audit(r.Context(), limit)
	if err != nil {
		fail(w, http.StatusBadGateway, "not_read", fmt.Sprintf("the audit can't be read: %v", err))
		return
	}
	slices.Reverse(all)
	answerOnly(w, "actions", append([]schemas.Audit{}, all...))
}
