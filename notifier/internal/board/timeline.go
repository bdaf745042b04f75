package board

import (
	"cmp"
	"slices"
	"time"
)

const (
	// steps is the number of steps of a timeline.
	steps = 60
	// maxBars bounds the bars of a timeline.
	maxBars = 200
)

// Timeline shows a time range in steps of equal length, with its longest loops.
type Timeline struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Steps []Step    `json:"steps"`
	Bars  []Bar     `json:"bars"`
	// Total counts the loops; Bars has at most maxBars of them.
	Total int `json:"total"`
}

// Step is a part of a timeline.
type Step struct {
	At time.Time `json:"at"`
	// Open counts the loops that were open in it by action, or under Shadow for those in
	// shadow mode.
	Open map[string]int `json:"open"`
	// Began counts the loops that began in it. Saved is what was saved in it.
	Began int   `json:"began"`
	Saved Saved `json:"saved"`
}

// Bar is a loop of a timeline.
type Bar struct {
	LoopID    string    `json:"loop_id"`
	State     string    `json:"state"`
	Policy    string    `json:"policy"`
	Title     string    `json:"title"`
	Action    string    `json:"action"`
	Mode      string    `json:"mode"`
	HitCount  int       `json:"hit_count"`
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
}

// Shadow is the mode of loops that are only watched, and their key in Step.Open.
const Shadow = "shadow"

// Line returns the timeline of loops that were open after since.
func Line(loops []Loop, since, now time.Time) Timeline {
	t := Timeline{Since: since, Until: now, Steps: make([]Step, steps), Total: len(loops)}
	for i := range t.Steps {
		t.Steps[i] = Step{At: since.Add(now.Sub(since) / steps * time.Duration(i)), Open: map[string]int{}}
	}
	for i := range loops {
		t.count(&loops[i])
	}
	t.Bars = Bars(longest(loops, now))
	return t
}

// Bars returns loops as a timeline shows them.
func Bars(loops []Loop) []Bar {
	bars := make([]Bar, len(loops))
	for i := range loops {
		l := &loops[i]
		bars[i] = Bar{l.LoopID, l.State, l.Policy, l.Title, l.Action, l.Mode, l.HitCount, l.FirstSeen, l.LastSeen}
	}
	return bars
}

// step returns the step of a time; earlier and later times are in the first and the last one.
func (t *Timeline) step(at time.Time) int {
	each := max(t.Until.Sub(t.Since)/steps, 1)
	return min(max(int(at.Sub(t.Since)/each), 0), steps-1)
}

func (t *Timeline) count(l *Loop) {
	kind := l.Action
	if l.Mode == Shadow {
		kind = Shadow
	}
	for i := t.step(l.FirstSeen); i <= t.step(l.until(t.Until)); i++ {
		t.Steps[i].Open[kind]++
	}
	if !l.FirstSeen.Before(t.Since) {
		t.Steps[t.step(l.FirstSeen)].Began++
	}
	before := &Loop{}
	for _, p := range l.Course() {
		if !p.At.Before(t.Since) {
			t.Steps[t.step(p.At)].Saved.grow(&before.Saved, &p.Saved)
		}
		before.Saved = p.Saved
	}
}

// until returns the end of the loop in a timeline.
func (l *Loop) until(now time.Time) time.Time {
	if l.State == Open {
		return now
	}
	return l.LastSeen
}

// longest returns the loops that lasted longest, at most maxBars.
func longest(loops []Loop, now time.Time) []Loop {
	if len(loops) <= maxBars {
		return loops
	}
	long := slices.Clone(loops)
	slices.SortStableFunc(long, func(a, b Loop) int {
		return cmp.Compare(b.until(now).Sub(b.FirstSeen), a.until(now).Sub(a.FirstSeen))
	})
	return long[:maxBars]
}
