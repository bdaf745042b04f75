package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/excerpts"
)

// roundsOf asks the admin port of a system for what a loop repeats.
func roundsOf(t *testing.T, s *system.System, loopID string) (status int, l excerpts.Loop) {
	t.Helper()
	res, err := http.Get(s.AdminURL() + strings.Replace(excerpts.Path, "{id}", loopID, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&l); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, l
}

// stoppedSession repeats a call until it is rejected, and returns the loop's id and the
// message of the refusal.
func stoppedSession(t *testing.T, url string) (loopID, message string) {
	t.Helper()
	var last answered
	for n := range 6 {
		last = send(t, url, chat(toolSession(n, always(`{"path":"a.go","api_key":"sk-abc123def456"}`), always("no such file"))))
	}
	r := last.refusal(t)
	return r.Detail.LoopID, r.Error.Message
}

func TestTheRoundsOfALoopAreShownOnTheAdminPort(t *testing.T) {
	t.Parallel()
	s := start(t, serve(t, greeting).url, inProcess) // checks carry the newest exchange over NATS
	all, _ := overheard(t, s)
	id, message := stoppedSession(t, s.URL())
	status, got := roundsOf(t, s, id)
	if status != http.StatusOK || got.LoopID != id || got.Prompt != "Find the bug." || got.At.IsZero() {
		t.Errorf("status %d, %+v", status, got)
	}
	var want []excerpts.Round
	for range 5 {
		want = append(want, excerpts.Round{Tool: "read_file", Arguments: `{"path":"a.go","api_key":[masked]}`, Result: "no such file"})
	}
	if diff := cmp.Diff(want, got.Rounds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := s.DashboardURL() + "/#loop=" + id; !strings.Contains(message, " See "+at+" or `unloop loops show "+id+"`") {
		t.Errorf("the refusal does not name %s: %s", at, message)
	}
	if strings.Contains(all.String(), "no such file") {
		t.Error("NATS carries the text of the loop")
	}
	if status, none := roundsOf(t, s, "another"); status != http.StatusOK || !none.At.IsZero() || none.Rounds != nil {
		t.Errorf("another loop: status %d, %+v", status, none)
	}
}

func TestNobodyElseSeesTheRoundsOfALoop(t *testing.T) {
	t.Parallel()
	const told = "bundle_version: 1\npolicies:\n  - {id: p, spec: {include_excerpt: true, tool: {}}}\n"
	reached := func(cfg *system.Config) { cfg.Admin = "0.0.0.0:0" }
	for name, c := range map[string]struct {
		edit func(*system.Config)
		want bool
	}{
		"turned off":                        {func(cfg *system.Config) { cfg.Gateway.NoExcerpts = true }, false},
		"other machines reach the port":     {reached, false},
		"they may, since a policy wants it": {func(cfg *system.Config) { reached(cfg); policies(t, told)(cfg) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, serve(t, greeting).url, c.edit)
			id, message := stoppedSession(t, s.URL())
			if status, l := roundsOf(t, s, id); status != http.StatusOK || len(l.Rounds) > 0 != c.want || l.Prompt != "" != c.want {
				t.Errorf("status %d, %+v, want rounds: %v", status, l, c.want)
			}
			if strings.Contains(message, "0.0.0.0") {
				t.Errorf("the refusal names an address for nobody: %s", message)
			}
		})
	}
}
