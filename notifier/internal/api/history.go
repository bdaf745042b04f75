package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/excerpts"
)

// loopHistory is what happened to a loop and in its session.
type loopHistory struct {
	// Course is how the loop grew.
	Course []board.Point `json:"course"`
	// Run has the loops of the loop's session, oldest first; RunOmitted counts those that are
	// left out.
	Run        []board.Bar     `json:"run"`
	RunOmitted int             `json:"run_omitted"`
	Deliveries []shownDelivery `json:"deliveries"`
	// Actions are those of operators on the loop, its session and its caller, newest first.
	Actions []schemas.Audit `json:"actions"`
	// Fault is why Actions is incomplete.
	Fault string `json:"fault,omitempty"`
}

// maxRun bounds the loops of a run, and the deliveries of a loop.
const maxRun = 50

func (a *API) getLoopHistory(w http.ResponseWriter, r *http.Request) {
	now := a.now()
	l, ok := a.board.Loop(r.PathValue("id"), now)
	if !ok {
		fail(w, http.StatusNotFound, "no_such_loop", noSuchLoop)
		return
	}
	h := loopHistory{Course: l.Course(), Run: []board.Bar{}, Deliveries: a.deliveriesOf(l.LoopID), Actions: []schemas.Audit{}}
	if l.Session != "" {
		run, _ := a.board.Loops(board.Filter{Session: l.Session, Order: board.ByAge}, now)
		h.RunOmitted = max(len(run)-maxRun, 0)
		h.Run = board.Bars(run[:len(run)-h.RunOmitted])
		slices.SortFunc(h.Run, func(x, y board.Bar) int { return x.FirstSeen.Compare(y.FirstSeen) })
	}
	actions, err := a.operator.Audit(r.Context(), maxList)
	if err != nil {
		h.Fault = fmt.Sprintf("the audit can't be read: %v", err)
	}
	for _, action := range actions {
		if concerns(&action, &l) {
			h.Actions = append(h.Actions, action)
		}
	}
	slices.Reverse(h.Actions)
	answer(w, h)
}

// getLoopRounds answers without rounds: only a gateway's admin port has them.
func (a *API) getLoopRounds(w http.ResponseWriter, r *http.Request) {
	answer(w, excerpts.Loop{LoopID: r.PathValue("id")})
}

// concerns reports whether an action was about a loop, its session, caller, tenant or project.
func concerns(a *schemas.Audit, l *board.Loop) bool {
	if a.Target == l.LoopID || strings.Contains(a.Detail, l.LoopID) {
		return true
	}
	scope, value, _ := strings.Cut(a.Target, " ")
	of := map[schemas.OverrideScope]string{
		schemas.ScopeSession: l.Session, schemas.ScopeCaller: l.Caller, schemas.ScopeTenant: l.Tenant, schemas.ScopeProject: l.Project,
	}[schemas.OverrideScope(scope)]
	return of != "" && of == value
}

// deliveriesOf returns the newest messages about a loop.
func (a *API) deliveriesOf(loopID string) []shownDelivery {
	all, _ := a.board.Deliveries.All()
	found := []shownDelivery{}
	for i := range all {
		if d := showDelivery(&all[i]); len(found) < maxRun && slices.Contains(d.Loops, loopID) {
			found = append(found, d)
		}
	}
	return found
}
