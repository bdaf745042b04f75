package detector_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func TestIncidentsShowTextOnlyWherePoliciesAsk(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	check := promptCheck("talk")
	told := proto.CloneOf(check.GetCounters()[0])
	told.Policy = "told"
	check.Counters = append(check.GetCounters(), told)
	check.Excerpt = &checkpb.Excerpt{Text: strings.Repeat("é", event.MaxExcerpt+1), Policies: []string{"told"}}
	for range 6 {
		ask(t, s.Conn(), check)
	}
	got := map[string]string{}
	for _, in := range storedIncidents(t, s) {
		got[in.Policy] = in.Findings[0].Excerpt
	}
	want := map[string]string{"told": strings.Repeat("é", event.MaxExcerpt), check.GetCounters()[0].GetPolicy(): ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("excerpts by policy (-want +got):\n%s", diff)
	}
}
