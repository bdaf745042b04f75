package conformance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
)

func (s suite) shown(t *testing.T) {
	t.Parallel()
	c := Fixing()
	c.Turns = append(c.Turns, Turn{Said: "I give up."}, Turn{Human: "Once more."}, Turn{Said: "No."})
	rounds, human := s.parse(t, c, provider.Options{Tail: 20}).Transcript.Show(3)
	want := []transcript.Shown{
		{Tool: "bash", Arguments: `{"command":"systemctl status x"}`, Result: "Error: no such unit"},
		{Said: "I give up.", Result: "Once more."},
		{Said: "No."},
	}
	if diff := cmp.Diff(want, rounds, cmpopts.IgnoreUnexported(transcript.Shown{})); diff != "" || human != "Once more." {
		t.Errorf("after %q (-want +got):\n%s", human, diff)
	}
}
