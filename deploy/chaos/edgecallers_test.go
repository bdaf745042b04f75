package main

import (
	"strings"
	"testing"
)

// Callers that send exactly as often as they may are never stopped, whatever is killed.
func TestCallersAtTheEdgeAreNotStopped(t *testing.T) {
	c := startForTest(t)
	var said strings.Builder
	if err := c.edges(t.Context(), 300, &said); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
}
