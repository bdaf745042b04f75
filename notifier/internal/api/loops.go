package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/schemas/kit/operator"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	maxOffset    = 100_000
	// statsFor is the time that stats are about unless a request says otherwise.
	statsFor = 24 * time.Hour
)

// loopList is a page of loops.
type loopList struct {
	Loops []board.Loop `json:"loops"`
	Total int          `json:"total"`
	// Omitted reports that more loops are open than are kept.
	Omitted bool      `json:"omitted"`
	AsOf    time.Time `json:"as_of"`
}

func (a *API) getLoops(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", defaultLimit, 1, maxLimit)
	if !ok {
		return
	}
	offset, ok := number(w, r, "offset", 0, 0, maxOffset)
	if !ok {
		return
	}
	since, ok := a.since(w, r, 0)
	if !ok {
		return
	}
	q := r.URL.Query()
	f := board.Filter{
		State: q.Get("state"), Policy: q.Get("policy"), Detector: q.Get("detector"), Action: q.Get("action"), Tenant: q.Get("tenant"),
		Project: q.Get("project"), Caller: q.Get("caller"), Session: q.Get("session"), Since: since,
	}
	if !slices.Contains([]string{"", board.Open, board.Resolved}, f.State) {
		fail(w, http.StatusBadRequest, "bad_parameter", "state must be open or resolved; leave it out for both")
		return
	}
	now := a.now()
	loops, omitted := a.board.Loops(f, now)
	page := loops[min(offset, len(loops)):]
	answer(w, loopList{Loops: page[:min(limit, len(page))], Total: len(loops), Omitted: omitted, AsOf: now.UTC()})
}

func (a *API) getLoop(w http.ResponseWriter, r *http.Request) {
	l, ok := a.board.Loop(r.PathValue("id"), a.now())
	if !ok {
		fail(w, http.StatusNotFound, "no_such_loop", "no loop with this id is among the newest ones; unloop loops show ID looks among all that are open")
		return
	}
	answer(w, l)
}

// released is the answer to a release.
type released struct {
	LoopID   string `json:"loop_id"`
	Counters int    `json:"counters"`
}

func (a *API) releaseLoop(w http.ResponseWriter, r *http.Request) {
	var by byActor
	if !body(w, r, &by) {
		return
	}
	id := r.PathValue("id")
	counters, err := a.operator.Release(r.Context(), actor(r, by.Actor), id)
	switch {
	case errors.Is(err, operator.ErrNotOpen):
		fail(w, http.StatusNotFound, "not_open", "the loop is not open any more")
	case errors.Is(err, operator.ErrNoDetector):
		fail(w, http.StatusServiceUnavailable, "no_detector", "no detector is running, and only detectors release loops")
	case err != nil:
		fail(w, http.StatusBadGateway, "not_released", fmt.Sprintf("the loop was not released: %v", err))
	default:
		answer(w, released{id, counters})
	}
}

func (a *API) getStats(w http.ResponseWriter, r *http.Request) {
	since, ok := a.since(w, r, statsFor)
	if !ok {
		return
	}
	now := a.now()
	loops, _ := a.board.Loops(board.Filter{Since: since}, now)
	stats := board.Summarize(loops, since.UTC(), now.UTC())
	stats.Open = a.board.OpenLoops(now)
	answer(w, stats)
}
