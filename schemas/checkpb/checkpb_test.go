package checkpb_test

import (
	"encoding/hex"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/semanticpb"
)

func TestLabelsNameActions(t *testing.T) {
	t.Parallel()
	for label, stops := range map[string]bool{"allow": false, "warn": false, "hint": false, "throttle": false, "reject": true, "break": true} {
		a := checkpb.ActionOf(label)
		if a.Label() != label || a.Stops() != stops {
			t.Errorf("%s: read as %s, stops is %v", label, a.Label(), a.Stops())
		}
	}
	if a := checkpb.ActionOf("other"); a != checkpb.Action_ACTION_ALLOW {
		t.Errorf("an unknown label is %v", a)
	}
	if checkpb.Answer_ANSWER_SYNTHETIC.Label() != "synthetic" || checkpb.Answer_ANSWER_ERROR.Label() != "" {
		t.Error("only a synthetic answer has a label")
	}
}

// Detectors keep these digests: a change makes them forget the exchange.
func TestDigestsOfExchangesStayWhatTheyWere(t *testing.T) {
	t.Parallel()
	e := &semanticpb.Exchange{Said: "Fix it.", Answered: "Done."}
	if got, want := hex.EncodeToString(checkpb.TextDigest(e)), "4973edf91cb86fba5467e8222774a4ab"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestOutcomeOfACheck(t *testing.T) {
	t.Parallel()
	c := &checkpb.Check{Exchange: &semanticpb.Exchange{Said: "Fix it."}, Counters: []*checkpb.Counter{{Policy: "p"}}}
	if o := checkpb.OutcomeOf(c); len(o.GetCounters()) != 1 || o.GetText() != nil {
		t.Errorf("without semantic checks: %v", o)
	}
	c.Semantics = []*checkpb.SemanticWatch{{Policy: "p"}}
	want := &checkpb.Outcome{Counters: c.GetCounters(), Semantics: c.GetSemantics(), Text: checkpb.TextDigest(c.GetExchange())}
	if o := checkpb.OutcomeOf(c); !proto.Equal(o, want) {
		t.Errorf("outcome %v, want %v", o, want)
	}
	c.RequestId, c.Watches = "r", []*checkpb.ToolWatch{{Policy: "p"}}
	short := c.Reportable()
	if o := checkpb.OutcomeOf(short); !proto.Equal(o, want) || short.GetRequestId() != "r" || short.GetWatches() != nil {
		t.Errorf("what is kept of the check is %v, and its outcome %v, want %v", short, o, want)
	}
	var none *checkpb.Check
	if none.Reportable() != nil {
		t.Error("something of no check")
	}
}
