package evidence

import (
	"bytes"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
)

func TestWatchesHaveTheirPolicysParameters(t *testing.T) {
	t.Parallel()
	e := asked{body: tools}.of(t, policies(t, `{tool: {per_tool: [{match: "read*", warn_threshold: 9, block_threshold: 12}], error_patterns: [x]}}`))
	w := e.Check.GetWatches()[0]
	if got := string(w.GetTool()); got != `{"per_tool":[{"match":"read*","warn_threshold":9,"block_threshold":12}]}` || len(w.GetCycle()) > 0 {
		t.Errorf("%v", w)
	}
	e = asked{body: tools}.of(t, policies(t, `{cycle: {}}`))
	if w := e.Check.GetWatches()[0]; string(w.GetCycle()) != "{}" || len(w.GetTool()) > 0 {
		t.Errorf("%v", w)
	}
}

func TestWatchesSeeTheHistory(t *testing.T) {
	t.Parallel()
	set := policies(t, "{tool: {}, semantic: {}}")
	e := asked{body: tools, session: "s", caller: "c"}.of(t, set)
	w := e.Check.GetWatches()[0]
	items := w.GetHistory().GetItems()
	if len(items) != 2 || len(items[0].GetHuman()) == 0 || len(items[1].GetCalls()) != 1 || w.GetHistory().GetDelta() || !w.GetHistory().GetOwn() {
		t.Fatalf("history %v", w.GetHistory())
	}
	if call := items[1].GetCalls()[0]; call.GetTool() != "read" || len(call.GetCall()) == 0 || len(call.GetResult()) == 0 || len(call.GetErrorClass()) != 0 || call.GetFailed() {
		t.Errorf("call %v", call)
	}
	if other := (asked{body: strings.Replace(tools, `"read"}}]`, `"write"}}]`, 1), session: "s"}).of(t, set); bytes.Equal(other.Check.GetWatches()[0].GetAgent(), w.GetAgent()) {
		t.Error("a sub-agent with other tools is the same agent")
	}
	// The tool detector counts a call that is repeated after other work.
	const call = `,{"role":"assistant","content":"I call it again.","tool_calls":[{"id":"c2","type":"function","function":{"name":"N","arguments":"{\"path\":\"a\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c2","content":"the text of a"}`
	again := strings.TrimSuffix(tools, "]}") + strings.NewReplacer("c2", "c3", `"N"`, `"write"`).Replace(call) + strings.Replace(call, `"N"`, `"read"`, 1) + "]}"
	if e := (asked{body: again, caller: "c"}).of(t, set); len(e.Check.GetWatches()) != 1 || e.Check.GetSemantics() != nil {
		t.Errorf("texts are compared beside the calls: %v", e.Check.GetSemantics())
	}
	const kept = `{"model":"m","conversation":"conv_1","input":[{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"done"}]}`
	before := func(body string) string {
		e := asked{url: "/v1/responses", body: body}.of(t, set)
		return string(e.Check.GetWatches()[0].GetHistory().GetBefore())
	}
	if first, next := before(kept), before(strings.ReplaceAll(kept, "c1", "c9")); first == next || first == "" {
		t.Error("a conversation that goes on looks like one that is sent again")
	}
}

func TestWatchesSayWhatIsAnsweredInTheModelsPlace(t *testing.T) {
	t.Parallel()
	set := policies(t, "{tool: {block_answer: synthetic}, cycle: {block_answer: error}}")
	const synthetic, none = checkpb.Answer_ANSWER_SYNTHETIC, checkpb.Answer_ANSWER_ERROR
	for name, c := range map[string]struct {
		a           asked
		tool, cycle checkpb.Answer
	}{
		"a request":         {asked{body: tools}, synthetic, none},
		"a check":           {asked{body: tools, set: func(in *Input) { in.DecisionOnly = true }}, none, none},
		"a peek":            {asked{body: tools, set: func(in *Input) { in.Peek = true }}, none, none},
		"a tool's call":     {asked{run: &request.ToolRun{Tool: "read"}}, none, none},
		"an answer of data": {asked{body: strings.Replace(tools, `{"model"`, `{"response_format":{"type":"json_object"},"model"`, 1)}, none, none},
	} {
		e := c.a.of(t, set)
		w := e.Check.GetWatches()[0]
		if w.GetBlockAnswer() != c.tool || w.GetCycleAnswer() != c.cycle {
			t.Errorf("%s: %v and %v, want %v and %v", name, w.GetBlockAnswer(), w.GetCycleAnswer(), c.tool, c.cycle)
		}
	}
}

func TestToolRunnersCallsAreRead(t *testing.T) {
	t.Parallel()
	failures, err := recognize.NewFailures("(?i)kaputt")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	for name, c := range map[string]struct {
		run   request.ToolRun
		rules provider.Rules
		want  string
	}{
		"a question about the session":     {request.ToolRun{Explain: true}, provider.Rules{}, ""},
		"before the call":                  {request.ToolRun{Tool: "read"}, provider.Rules{}, "call"},
		"a result":                         {request.ToolRun{Tool: "read", Done: true, Result: []byte("text")}, provider.Rules{}, "call done result"},
		"a result that is an error":        {request.ToolRun{Tool: "read", Done: true, Result: []byte("text"), Failed: &yes}, provider.Rules{}, "call done result failed class"},
		"a result that looks like one":     {request.ToolRun{Tool: "read", Done: true, Result: []byte("Error: no such file")}, provider.Rules{}, "call done result failed class"},
		"a result that the policy knows":   {request.ToolRun{Tool: "read", Done: true, Result: []byte("alles kaputt")}, provider.Rules{Failures: failures}, "call done result failed class"},
		"a call that is not made":          {request.ToolRun{Tool: "read", Canceled: true}, provider.Rules{}, "call done canceled"},
		"a refusal of our own as a result": {request.ToolRun{Tool: "read", Done: true, Result: []byte("recursive_loop_detected: stop")}, provider.Rules{}, "call done ours"},
	} {
		e := asked{run: &c.run, session: "s", set: func(in *Input) { in.Reading = map[string]provider.Rules{"p": c.rules} }}.of(t, policies(t, "{tool: {}}"))
		w := e.Check.GetWatches()[0]
		var words []string
		for _, is := range []struct {
			word string
			is   bool
		}{
			{"call", len(w.GetRun().GetCall().GetCall()) > 0}, {"done", w.GetRun().GetDone()}, {"canceled", w.GetRun().GetCanceled()}, {"result", len(w.GetRun().GetCall().GetResult()) > 0},
			{"failed", w.GetRun().GetCall().GetFailed()}, {"class", len(w.GetRun().GetCall().GetErrorClass()) > 0}, {"ours", w.GetRun().GetCall().GetOurs()},
		} {
			if is.is {
				words = append(words, is.word)
			}
		}
		if got := strings.Join(words, " "); got != c.want || w.GetHistory() != nil {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
