package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/schemas/kit/operator"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	maxOffset    = 100_000
	// statsFor is the default time range of stats.
	statsFor = 24 * time.Hour
)

// loopList is a page of loops.
type loopList struct {
	Loops []board.Loop `json:"loops"`
	Total int          `json:"total"`
	// Omitted reports that more loops are open than the board keeps.
	Omitted bool      `json:"omitted"`
	AsOf    time.Time `json:"as_of"`
}

// selected reads the filter and the order of loops. It answers and returns false if a parameter
// is not valid.
func (a *API) selected(w http.ResponseWriter, r *http.Request, standard time.Duration) (board.Filter, bool) {
	since, ok := a.since(w, r, standard)
	if !ok {
		return board.Filter{}, false
	}
	q := r.URL.Query()
	f := board.Filter{
		State: q.Get("state"), Policy: q.Get("policy"), Detector: q.Get("detector"), Action: q.Get("action"), Tenant: q.Get("tenant"),
		Project: q.Get("project"), Caller: q.Get("caller"), Session: q.Get("session"), Tool: q.Get("tool"), Since: since,
		Words: strings.Fields(strings.ToLower(q.Get("q"))), Order: board.Order(q.Get("sort")),
	}
	switch {
	case !slices.Contains([]string{"", board.Open, board.Resolved}, f.State):
		fail(w, http.StatusBadRequest, "bad_parameter", "state must be open or resolved; leave it out for both")
	case f.Order != "" && !slices.Contains(board.Orders(), f.Order):
		fail(w, http.StatusBadRequest, "bad_parameter", "sort must be one of "+names(board.Orders()))
	case len(f.Words) > maxWords:
		fail(w, http.StatusBadRequest, "bad_parameter", fmt.Sprintf("q must have at most %d words", maxWords))
	default:
		return f, true
	}
	return f, false
}

// maxWords bounds the words of a search.
const maxWords = 20

// names lists names, separated by commas.
func names[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, name := range all {
		words[i] = string(name)
	}
	return strings.Join(words, ", ")
}

// paged is selected for a list: it also reads which page is wanted.
func (a *API) paged(w http.ResponseWriter, r *http.Request) (f board.Filter, limit, offset int, ok bool) {
	if limit, ok = number(w, r, "limit", defaultLimit, 1, maxLimit); ok {
		offset, ok = number(w, r, "offset", 0, 0, maxOffset)
	}
	if ok {
		f, ok = a.selected(w, r, 0)
	}
	return f, limit, offset, ok
}

// part returns a page of a list.
func part[T any](list []T, limit, offset int) []T {
	list = list[min(offset, len(list)):]
	return list[:min(limit, len(list))]
}

func (a *API) getLoops(w http.ResponseWriter, r *http.Request) {
	f, limit, offset, ok := a.paged(w, r)
	if !ok {
		return
	}
	now := a.now()
	loops, omitted := a.board.Loops(f, now)
	answer(w, loopList{Loops: part(loops, limit, offset), Total: len(loops), Omitted: omitted, AsOf: now.UTC()})
}

// groupList is a page of groups of loops.
type groupList struct {
	Groups []board.Group `json:"groups"`
	// Total counts the groups, Loops the loops in them.
	Total int       `json:"total"`
	Loops int       `json:"loops"`
	AsOf  time.Time `json:"as_of"`
}

func (a *API) getGroups(w http.ResponseWriter, r *http.Request) {
	f, limit, offset, ok := a.paged(w, r)
	if !ok {
		return
	}
	by := board.By(r.URL.Query().Get("by"))
	if !slices.Contains(board.Groupings(), by) {
		fail(w, http.StatusBadRequest, "bad_parameter", "by must be one of "+names(board.Groupings()))
		return
	}
	now, order := a.now(), f.Order
	f.Order = ""
	loops, _ := a.board.Loops(f, now)
	groups := board.Groups(loops, by, order)
	answer(w, groupList{Groups: part(groups, limit, offset), Total: len(groups), Loops: len(loops), AsOf: now.UTC()})
}

func (a *API) getTimeline(w http.ResponseWriter, r *http.Request) {
	f, ok := a.selected(w, r, statsFor)
	if !ok {
		return
	}
	now := a.now()
	f.Order = ""
	loops, _ := a.board.Loops(f, now)
	answer(w, board.Line(loops, f.Since.UTC(), now.UTC()))
}

const noSuchLoop = "no loop with this id is among the newest ones; unloop loops show ID looks among all that are open"

func (a *API) getLoop(w http.ResponseWriter, r *http.Request) {
	l, ok := a.board.Loop(r.PathValue("id"), a.now())
	if !ok {
		fail(w, http.StatusNotFound, "no_such_loop", noSuchLoop)
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
		fail(w, http.StatusNotFound, "not_open", "the loop is no longer open")
	case errors.Is(err, operator.ErrNoDetector):
		fail(w, http.StatusServiceUnavailable, "no_detector", "no detector is running, and only detectors release loops")
	case err != nil:
		fail(w, http.StatusBadGateway, "not_released", fmt.Sprintf("the loop was not released: %v", err))
	default:
		answer(w, released{id, counters})
	}
}

func (a *API) getStats(w http.ResponseWriter, r *http.Request) {
	f, ok := a.selected(w, r, statsFor)
	if !ok {
		return
	}
	now := a.now()
	loops, _ := a.board.Loops(f, now)
	stats := board.Summarize(loops, f.Since.UTC(), now.UTC())
	stats.Open = a.board.OpenLoops(now)
	answer(w, stats)
}
