package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// unloopSDK is a language of Unloop's own SDKs beside Go.
type unloopSDK struct {
	// program runs scripts; conformance are its arguments for the cases that all SDKs have
	// in common, guard the script of the sdk folder with a guarded tool.
	program     string
	conformance []string
	guard       string
}

func unloopSDKs(t *testing.T) map[string]unloopSDK {
	t.Helper()
	sdks := map[string]unloopSDK{}
	if node := os.Getenv("UNLOOP_TEST_NODE"); node != "" {
		sdks["JavaScript"] = unloopSDK{node, []string{"--test", "../../schemas/client/js/conformance.test.js"}, "sdk/guard.mjs"}
	}
	bun := filepath.Join(os.Getenv("UNLOOP_TEST_NODE_MODULES"), "@oven", "bun-linux-x64-baseline", "bin", "bun")
	if _, err := os.Stat(bun); err == nil { // npm has it for this platform
		sdks["JavaScript in Bun"] = unloopSDK{bun, []string{"test", "../../schemas/client/js/conformance.test.js"}, "sdk/guard.mjs"}
	}
	if python, err := exec.LookPath("python3"); err == nil {
		sdks["Python"] = unloopSDK{python, []string{"-B", "-m", "unittest", "discover", "../../schemas/client/python"}, "sdk/guard.py"}
	}
	if len(sdks) == 0 {
		t.Skip("neither Node nor python3 is installed")
	}
	return sdks
}

// run runs a script with one more variable.
func (s unloopSDK) run(t *testing.T, variable string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OPENAI_API_KEY=sk-test", variable}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(s.program), strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestSDKsOfAllLanguagesDoTheSame(t *testing.T) {
	t.Parallel()
	for language, sdk := range unloopSDKs(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			sdk.run(t, "PYTHONDONTWRITEBYTECODE=1", sdk.conformance...)
		})
	}
}

func TestGuardOfAnSDKStopsATool(t *testing.T) {
	t.Parallel()
	for language, sdk := range unloopSDKs(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			s := start(t, echo(t))
			var got struct {
				Made  int
				Typed bool
				Says  string
				Loop  string
				Other string
			}
			out := sdk.run(t, "PYTHONDONTWRITEBYTECODE=1", sdk.guard, s.URL())
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got.Made != 5 || !got.Typed || !strings.Contains(got.Says, "weather") || got.Loop == "" || got.Other != "It is sunny in Rome." {
				t.Errorf("%+v, want a typed error after four equal calls, and another call made", got)
			}
		})
	}
}

// The JavaScript SDK guards a tool of a web page that the gateway allows.
func TestGuardOfAnSDKInABrowserStopsATool(t *testing.T) {
	t.Parallel()
	b := browse(t)
	sdk := http.FileServer(http.Dir("../../schemas/client/js"))
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			sdk.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><p>A page</p>`)
	}))
	t.Cleanup(page.Close)
	s := start(t, echo(t), func(cfg *system.Config) { cfg.Gateway.Pages.AllowOrigin = []string{page.URL} })
	b.do(chromedp.Navigate(page.URL))
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf(`(async () => {
		const { Client } = await import('/index.js');
		let made = 0;
		const weather = new Client(%q, { apiKey: 'sk-page' }).run('page').guard(async () => { made += 1; return 'sunny'; }, { name: 'weather' });
		for (let i = 0; i < 10; i += 1) {
			const err = await weather({ city: 'Oslo' }).then(() => null, (err) => err);
			if (err) return made + ' ' + err.name;
		}
		return made;
	})()`, s.URL()), chromedp.EvalAwaitPromise))
	if err != nil || got != "4 LoopDetectedError" {
		t.Errorf("%s, %v, want a typed error after four equal calls", got, err)
	}
}
