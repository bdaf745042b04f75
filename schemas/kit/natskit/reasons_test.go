package natskit

import (
	"errors"
	"testing"
)

// A client may lose its connection without a reason.
func TestReasonsOfAnOutage(t *testing.T) {
	t.Parallel()
	var r reasons
	if r.add(nil) || !errors.Is(r.err(), ErrNotConnected) {
		t.Error("no reason is one")
	}
	refused := errors.New("Refused")
	if !r.add(refused) || r.add(errors.New("refused")) || r.add(nil) || !errors.Is(r.err(), ErrNotConnected) {
		t.Error("a reason is kept once")
	}
	r.clear()
	if !r.add(refused) || !errors.Is(r.err(), refused) {
		t.Error("the reasons of another outage")
	}
}
