package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/meter"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/openloop"
)

func TestUpstreamsAreThoseOfTheEnvironmentExceptTheGatewayItself(t *testing.T) {
	t.Parallel()
	environ := []string{
		"OPENAI_BASE_URL=http://localhost:8080/v1", "ANTHROPIC_BASE_URL=https://claude.example", "GOOGLE_GEMINI_BASE_URL=", "OTHER_BASE_URL=http://x",
	}
	for gateway, want := range map[string]map[string]string{
		"http://127.0.0.1:8080": {"anthropic": "https://claude.example"},
		"http://127.0.0.1:9090": {"anthropic": "https://claude.example", "openai": "http://localhost:8080/v1"},
		"":                      {"anthropic": "https://claude.example", "openai": "http://localhost:8080/v1"},
	} {
		if diff := cmp.Diff(want, upstreamsOf(environ, gateway)); diff != "" {
			t.Errorf("gateway %q (-want +got):\n%s", gateway, diff)
		}
	}
}

func TestAgentsEnvironmentLeadsToTheGateway(t *testing.T) {
	t.Parallel()
	const at = "http://127.0.0.1:4711"
	got := environ([]string{"PATH=/bin", "OPENAI_BASE_URL=http://elsewhere/v1", "OPENAI_BASE_URL_OLD=x", "https_proxy=http://p"}, at)
	slices.Sort(got)
	want := []string{
		"ANTHROPIC_BASE_URL=http://127.0.0.1:4711", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4711", "NO_PROXY=127.0.0.1",
		"OPENAI_API_BASE=http://127.0.0.1:4711/v1", "OPENAI_BASE_URL=http://127.0.0.1:4711/v1", "OPENAI_BASE_URL_OLD=x", "PATH=/bin", "https_proxy=http://p", "no_proxy=127.0.0.1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := environ([]string{"HTTP_PROXY="}, at); variable(got, "NO_PROXY") != "" {
		t.Errorf("without a proxy: %v", got)
	}
}

func TestTallyIsWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	loop := func(id string, requests int) openloop.Record {
		return openloop.Record{Data: event.Data{LoopID: id, Saved: event.Saved{Requests: requests, InputTokens: 10 * requests}}}
	}
	tl := &tally{before: map[string]event.Saved{"old": loop("old", 5).Saved, "still": loop("still", 2).Saved}, loops: map[string]openloop.Record{}}
	for _, l := range []openloop.Record{loop("", 1), loop("old", 5), loop("still", 4), loop("still", 3), loop("new", 0), loop("new", 1)} {
		tl.see(l)
	}
	got := map[string]int{}
	for _, l := range tl.meanwhile() {
		got[l.LoopID] = l.Saved.Requests + l.Saved.InputTokens
	}
	if diff := cmp.Diff(map[string]int{"still": 22, "new": 11}, got); diff != "" {
		t.Errorf("saved meanwhile (-want +got):\n%s", diff)
	}
}

func TestReportCountsInWords(t *testing.T) {
	t.Parallel()
	price, little := 0.25, 0.009
	stopped := openloop.Record{Data: event.Data{
		LoopID: "L1", Policy: "p", Detector: "prompt", Action: "reject", Mode: event.ModeEnforce, HitCount: 8, FirstSeen: time.Unix(1, 0),
		Saved: event.Saved{Requests: 1, InputTokens: 1200, USD: &price},
	}}
	cheap := stopped
	cheap.Saved.USD = &little
	hinted := openloop.Record{Data: event.Data{LoopID: "L2", Policy: "p", Detector: "tool", Action: "hint", Mode: event.ModeShadow, HitCount: 3}}
	for name, c := range map[string]struct {
		loops []openloop.Record
		want  string
	}{
		"no stop":  {[]openloop.Record{hinted}, "unloop: 1 loop found, and no request stopped.\nunloop:   loop L2: the same tool call with the same result 3 times; would hint, policy p, detector tool, 0 requests stopped\n"},
		"one stop": {[]openloop.Record{stopped}, "unloop: 1 loop stopped: 1 request and about 1 200 input tokens saved, $0.25.\nunloop:   loop L1: the same prompt 8 times; reject, policy p, detector prompt, 1 request stopped\n"},
		"a cent":   {[]openloop.Record{cheap}, "unloop: 1 loop stopped: 1 request and about 1 200 input tokens saved, <$0.01.\nunloop:   loop L1: the same prompt 8 times; reject, policy p, detector prompt, 1 request stopped\n"},
	} {
		var out strings.Builder
		printTally(&printer{w: &out}, c.loops)
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCountsAreToldInWords(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]meter.Counts{
		"1 request came through": {Requests: 1},
		"9 requests came through; 2 answers with status 401, 1 answer with status 500, 1 request without an answer": {
			Requests: 9, Failed: map[int]int{500: 1, 401: 2}, Unanswered: 1,
		},
		"9 requests came through: 2 forwarded, 7 stopped (3 in a loop, 2 by an operator's block, 1 by a policy's rule, 1 because no check could be made)": {
			Requests: 9, Stopped: map[string]int{meter.ByLoop: 3, meter.ByOperator: 2, meter.ByRule: 1, meter.Unchecked: 1},
		},
	} {
		if got := countWords(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAProvidersKeyNeedsClientsThatAreAsked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"up", "gateway", "demo"} {
		code, _, errOut := command(t, name, "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--upstream-key=openai=env:HOME")
		if code != 1 || !strings.Contains(errOut, "--upstream-key") || !strings.Contains(errOut, "--insecure") {
			t.Errorf("%s: code %d, %s", name, code, errOut)
		}
	}
}
