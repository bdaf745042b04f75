package service

import (
	"errors"
	"testing"
)

func TestReadinessSaysWhatAStartWaitsFor(t *testing.T) {
	t.Parallel()
	away := errors.New("no server")
	var r Readiness
	r.Also(func() error { return away })
	if err := r.Err(); !errors.Is(err, ErrStarting) || !errors.Is(err, away) {
		t.Errorf("starting: %v", err)
	}
	r.Set(nil)
	if err := r.Err(); !errors.Is(err, away) {
		t.Errorf("started: %v", err)
	}
	away = nil
	if err := r.Err(); err != nil {
		t.Errorf("with its server: %v", err)
	}
	r.Set(ErrDraining)
	away = errors.New("no server")
	if err := r.Err(); !errors.Is(err, ErrDraining) || errors.Is(err, away) {
		t.Errorf("draining: %v", err)
	}
}

// A check that waits for its first success hides no reason of another one.
func TestAStartThatGoesOnNamesItsReason(t *testing.T) {
	t.Parallel()
	away := errors.New("no server")
	var r Readiness
	r.Also(func() error { return ErrStarting })
	r.Also(func() error { return away })
	for range 2 {
		if err := r.Err(); !errors.Is(err, ErrStarting) || !errors.Is(err, away) {
			t.Errorf("with a reason: %v", err)
		}
		r.Set(nil)
	}
	away = nil
	if err := r.Err(); !errors.Is(err, ErrStarting) {
		t.Errorf("without another reason: %v", err)
	}
}
