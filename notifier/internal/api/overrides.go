package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/operator"
)

// overrideList has the blocks and exemptions in force.
type overrideList struct {
	Overrides []schemas.Override `json:"overrides"`
	// Sealed reports whether only the operator's command line can set and end them.
	Sealed bool `json:"sealed"`
}

func (a *API) getOverrides(w http.ResponseWriter, _ *http.Request) {
	answer(w, overrideList{a.standing(), a.operator.Sealed()})
}

// standing returns the overrides in force.
func (a *API) standing() []schemas.Override {
	now := a.now()
	all, _ := a.board.Overrides.All()
	return slices.DeleteFunc(all, func(o schemas.Override) bool { return !o.StandsAt(now) })
}

// overrideRequest is the body of a request for an override that begins now.
type overrideRequest struct {
	byActor
	Action          schemas.OverrideAction `json:"action"`
	Scope           schemas.OverrideScope  `json:"scope"`
	Value           string                 `json:"value"`
	Reason          string                 `json:"reason"`
	DurationSeconds int64                  `json:"duration_seconds"`
}

const (
	// maxOverride bounds the duration of an override, maxText each of its texts in bytes.
	maxOverride = 366 * 24 * time.Hour
	maxText     = 1000
)

func (a *API) addOverride(w http.ResponseWriter, r *http.Request) {
	var in overrideRequest
	if !body(w, r, &in) {
		return
	}
	if in.DurationSeconds < 1 || in.DurationSeconds > int64(maxOverride/time.Second) {
		fail(w, http.StatusBadRequest, "bad_override", "duration_seconds must be from 1 to 31622400 (366 days)")
		return
	}
	now := a.now().UTC()
	o := schemas.Override{
		Action: in.Action, Scope: in.Scope, Value: in.Value, Reason: in.Reason, CreatedAt: now, ExpiresAt: now.Add(time.Duration(in.DurationSeconds) * time.Second),
	}
	err := o.Validate()
	if err == nil && max(len(o.Value), len(o.Reason)) > maxText {
		err = fmt.Errorf("value and reason must have at most %d bytes", maxText)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "bad_override", err.Error())
		return
	}
	if err := a.operator.AddOverride(r.Context(), actor(r, in.Actor), o); err != nil {
		failOverride(w, err)
		return
	}
	answerWith(w, http.StatusCreated, o)
}

func (a *API) endOverride(w http.ResponseWriter, r *http.Request) {
	var by byActor
	if !body(w, r, &by) {
		return
	}
	named := schemas.Override{
		Action: schemas.OverrideAction(r.PathValue("action")), Scope: schemas.OverrideScope(r.PathValue("scope")), Value: r.PathValue("value"),
	}
	all := a.standing()
	i := slices.IndexFunc(all, func(o schemas.Override) bool { return o.Key() == named.Key() })
	if i < 0 {
		fail(w, http.StatusNotFound, "no_such_override", "no such block or exemption is in force")
		return
	}
	o := all[i]
	o.EndedAt = a.now().UTC()
	if err := a.operator.EndOverride(r.Context(), actor(r, by.Actor), o); err != nil {
		failOverride(w, err)
		return
	}
	answer(w, o)
}

// failOverride answers that an override was not stored.
func failOverride(w http.ResponseWriter, err error) {
	if errors.Is(err, operator.ErrSealed) {
		fail(w, http.StatusForbidden, "sealed", "only the operator's command line can set and end blocks and exemptions here: their records need its seal")
		return
	}
	fail(w, http.StatusBadGateway, "not_stored", fmt.Sprintf("the override was not stored: %v", err))
}
