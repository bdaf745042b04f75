package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/schemas/event"
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
	g := &guard{url: "http://127.0.0.1:4711"}
	got := g.environ([]string{"PATH=/bin", "OPENAI_BASE_URL=http://elsewhere/v1", "OPENAI_BASE_URL_OLD=x", "https_proxy=http://p"})
	slices.Sort(got)
	want := []string{
		"ANTHROPIC_BASE_URL=http://127.0.0.1:4711", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4711", "NO_PROXY=127.0.0.1",
		"OPENAI_BASE_URL=http://127.0.0.1:4711/v1", "OPENAI_BASE_URL_OLD=x", "PATH=/bin", "https_proxy=http://p", "no_proxy=127.0.0.1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := g.environ([]string{"HTTP_PROXY="}); variable(got, "NO_PROXY") != "" {
		t.Errorf("without a proxy: %v", got)
	}
}

func TestTallyIsWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	loop := func(id string, requests int) event.Incident {
		return event.Incident{Data: event.Data{LoopID: id, Saved: event.Saved{Requests: requests, InputTokens: 10 * requests}}}
	}
	tl := &tally{before: map[string]event.Saved{"old": loop("old", 5).Saved, "still": loop("still", 2).Saved}, loops: map[string]event.Incident{}}
	for _, l := range []event.Incident{loop("", 1), loop("old", 5), loop("still", 4), loop("still", 3), loop("new", 0), loop("new", 1)} {
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
	price := 0.25
	stopped := event.Incident{Data: event.Data{
		LoopID: "L1", Policy: "p", Detector: "prompt", Action: "reject", Mode: event.ModeEnforce, HitCount: 8, FirstSeen: time.Unix(1, 0),
		Saved: event.Saved{Requests: 1, InputTokens: 1200, USD: &price},
	}}
	hinted := event.Incident{Data: event.Data{LoopID: "L2", Policy: "p", Detector: "tool", Action: "hint", Mode: event.ModeShadow, HitCount: 3}}
	for name, c := range map[string]struct {
		loops []event.Incident
		want  string
	}{
		"nothing":  {nil, "unloop: no loop was found.\n"},
		"no stop":  {[]event.Incident{hinted}, "unloop: 1 loop found, and no request stopped.\nunloop:   L2  would hint, policy p, detector tool, 3 hits, 0 requests stopped\n"},
		"one stop": {[]event.Incident{stopped}, "unloop: 1 loop stopped: 1 request and about 1200 input tokens saved, $0.25.\nunloop:   L1  reject, policy p, detector prompt, 8 hits, 1 request stopped\n"},
	} {
		var out strings.Builder
		printTally(&printer{w: &out}, c.loops)
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
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
