package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// A loop that writes each of its bodies in another way is a loop.
func TestDialectsHideNoLoop(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	const body = `{"model":"m","messages":[{"role":"user","content":"go on"}]}`
	for name, dialect := range map[string]func(i int) string{
		"byte order marks and padding": func(i int) string {
			return strings.Repeat("\uFEFF", i%2) + body + strings.Repeat(" \n", i)
		},
		"numbers that are none": func(i int) string {
			return strings.Replace(body, "{", `{"temperature":`+[]string{"NaN", "Infinity", "-Infinity", "1"}[i%4]+",", 1)
		},
		"a key twice":                 func(i int) string { return strings.Replace(body, "{", fmt.Sprintf(`{"model":"m%d",`, i), 1) },
		"something behind the value":  func(i int) string { return body + fmt.Sprintf(" %d", i) },
		"bytes that are no character": func(i int) string { return strings.Replace(body, "on", "on"+string([]byte{byte(0xf8 + i)}), 1) },
		"zeros behind the value":      func(i int) string { return body + strings.Repeat("\x00", i+1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 6 {
				a := send(t, url, chat(dialect(i)).with("Authorization", "Bearer "+name))
				if want := []int{http.StatusOK, http.StatusTooManyRequests}[i/5]; a.status != want {
					t.Errorf("request %d: status %d, want %d", i+1, a.status, want)
				}
			}
		})
	}
}

// Bodies that can't be read are warned of and throttled by their number, however
// they differ; those of other callers, and those that can be read, are not.
func TestBodiesThatCantBeReadAreLimited(t *testing.T) {
	t.Parallel()
	var c clock
	url := start(t, echo(t), c.set, policies(t, `
bundle_version: 1
policies: [{id: p, spec: {prompt: {uninspected_max: 2}}}]
`), func(cfg *system.Config) { cfg.Gateway.MaxInspectBytes = 100_000 }).URL()
	for name, body := range map[string]func(i int) string{
		"no JSON": func(i int) string {
			return fmt.Sprintf(`{"model":"m", // %d`+"\n"+`"messages":[{"role":"user","content":"go"}],}`, i)
		},
		"too large": func(i int) string {
			return fmt.Sprintf(`{"n":%d,"messages":[{"role":"user","content":"%s"}]}`, i, strings.Repeat("a", 200_000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as := func(c call) call { return c.with("Authorization", "Bearer "+name) }
			for i, want := range []string{"", "", "warn", "warn", "throttle", "throttle"} {
				a := send(t, url, as(chat(body(i))))
				if got := a.header.Get("X-Loop-Action"); got != want || a.status != http.StatusOK {
					t.Errorf("body %d: status %d, action %q, want %q", i+1, a.status, got, want)
				}
				if got := a.header.Get("X-Loop-Detector"); want != "" && got != "uninspected" {
					t.Errorf("body %d: found by %q", i+1, got)
				}
			}
			for what, other := range map[string]call{
				"readable": as(prompt("another " + name)), "of another caller": chat(body(9)).with("Authorization", "Bearer not "+name),
			} {
				if got := send(t, url, other).header.Get("X-Loop-Action"); got != "" {
					t.Errorf("%s: action %q", what, got)
				}
			}
		})
	}
}

func TestTheDefaultPolicyLimitsBodiesThatCantBeRead(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	for i := range 21 {
		a := send(t, url, chat(fmt.Sprintf("{%d", i)))
		if want := []string{"", "warn"}[i/20]; a.header.Get("X-Loop-Action") != want {
			t.Errorf("body %d: action %q, want %q", i+1, a.header.Get("X-Loop-Action"), want)
		}
	}
}
