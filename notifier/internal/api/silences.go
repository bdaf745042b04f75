package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/silence"
)

// shownSilence is a silence with its state.
type shownSilence struct {
	silence.Silence
	State string `json:"state"`
}

func (a *API) shown(s silence.Silence) shownSilence {
	now := a.now()
	if s.Matchers == nil {
		s.Matchers = match.Matchers{}
	}
	switch {
	case s.Active(now):
		return shownSilence{s, "active"}
	case now.Before(s.Start):
		return shownSilence{s, "pending"}
	default:
		return shownSilence{s, "ended"}
	}
}

func (a *API) getSilences(w http.ResponseWriter, _ *http.Request) {
	all, _ := a.board.Silences.All()
	list := make([]shownSilence, 0, len(all))
	for _, s := range all {
		list = append(list, a.shown(s))
	}
	slices.SortStableFunc(list, func(x, y shownSilence) int { return y.End.Compare(x.End) })
	answerOnly(w, "silences", list)
}

// silenceRequest is the body of a request for a silence that begins now.
type silenceRequest struct {
	Matchers        match.Matchers `json:"matchers"`
	Author          string         `json:"author"`
	Comment         string         `json:"comment"`
	DurationSeconds int64          `json:"duration_seconds"`
}

// maxSilence bounds the duration of a silence.
const maxSilence = 366 * 24 * time.Hour

func (a *API) addSilence(w http.ResponseWriter, r *http.Request) {
	var in silenceRequest
	if !body(w, r, &in) {
		return
	}
	if in.DurationSeconds < 1 || in.DurationSeconds > int64(maxSilence/time.Second) {
		fail(w, http.StatusBadRequest, "bad_silence", "duration_seconds must be from 1 to 31622400 (366 days)")
		return
	}
	if user, _, ok := r.BasicAuth(); ok && user != "" {
		in.Author = user
	}
	now := a.now().UTC()
	s := silence.Silence{
		Matchers: in.Matchers, Author: in.Author, Comment: in.Comment, Start: now, End: now.Add(time.Duration(in.DurationSeconds) * time.Second),
	}
	if err := s.Validate(); err != nil {
		fail(w, http.StatusBadRequest, "bad_silence", err.Error())
		return
	}
	stored, err := a.operator.AddSilence(r.Context(), actor(r, in.Author), s)
	if err != nil {
		fail(w, http.StatusBadGateway, "not_stored", fmt.Sprintf("the silence was not stored: %v", err))
		return
	}
	answerWith(w, http.StatusCreated, a.shown(stored))
}

func (a *API) expireSilence(w http.ResponseWriter, r *http.Request) {
	var by byActor
	if !body(w, r, &by) {
		return
	}
	id := r.PathValue("id")
	err := a.operator.ExpireSilence(r.Context(), actor(r, by.Actor), id)
	switch {
	case errors.Is(err, silences.ErrUnknown):
		fail(w, http.StatusNotFound, "no_such_silence", "no silence with this id is in force")
	case err != nil:
		fail(w, http.StatusBadGateway, "not_stored", fmt.Sprintf("the silence was not ended: %v", err))
	default:
		answerOnly(w, "id", id)
	}
}
