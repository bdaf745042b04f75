package embedworker_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/schemas/details"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/semanticpb"
)

func TestWhatCannotMatchIsNotEmbedded(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	metrics := prometheus.NewRegistry()
	startWith(t, server.Service(), lexical(), metrics)
	const said, answered = "Let me look at the report again.", "It still says nothing about rings."
	lazy := func(digest uint64, said, answered string, alike ...*semanticpb.EarlierExchange) *semanticpb.SemanticRequest {
		r := exchange("lazy", said, answered)
		r.Lazy = true
		trace := &semanticpb.Trace{Digest: digest, Details: new(uint64(details.Of(said, answered)))}
		for before := digest - 1; before > 0; before-- {
			trace.Earlier = append(trace.Earlier, before)
		}
		trace.Earlier, trace.Further = trace.Earlier[:min(1, len(trace.Earlier))], trace.Earlier[min(1, len(trace.Earlier)):]
		r.GetExchange().Trace, r.GetExchange().Alike = trace, alike
		return r
	}
	for i, r := range []*semanticpb.SemanticRequest{
		lazy(1, said, answered),
		lazy(2, "Let me read page 2.", "It says nothing about rings."),
		lazy(3, "Let me read page 3.", "It says nothing about rings."),
	} {
		if reply := ask(t, server.Conn(), r); !reply.GetJudged() || reply.GetEmbedded() != 0 || reply.GetCompared() != uint32(i) {
			t.Errorf("exchange %d: %v", i, reply)
		}
	}
	reply := ask(t, server.Conn(), lazy(4, "Again, let me look at the report.", answered, &semanticpb.EarlierExchange{Said: said, Answered: answered, Digest: 1}))
	if !reply.GetDetected() || reply.GetEmbedded() != 2 || len(reply.GetMatches()) != 1 {
		t.Errorf("an exchange in other words: %v", reply)
	}
	unknown := lazy(5, said, answered) // an older gateway sends no details
	unknown.GetExchange().GetTrace().Details = nil
	if reply := ask(t, server.Conn(), unknown); reply.GetEmbedded() != 1 {
		t.Errorf("without details: %v", reply)
	}
	want := `
# HELP unloop_embeddings_total ` + helpOf(t, metrics, "unloop_embeddings_total") + `
# TYPE unloop_embeddings_total counter
unloop_embeddings_total{reason="alike"} 1
unloop_embeddings_total{reason="always"} 1
unloop_embeddings_total{reason="earlier"} 1
unloop_embeddings_total{reason="unneeded"} 3
`
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "unloop_embeddings_total"); err != nil {
		t.Error(err)
	}
}

// helpOf returns the help of a metric.
func helpOf(t *testing.T, g prometheus.Gatherer, name string) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetHelp()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return ""
}
