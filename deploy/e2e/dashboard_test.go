package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// browserPatience bounds what a browser on a busy machine takes.
const browserPatience = 3 * time.Minute

// browser is a tab of headless Chromium, and what its console says.
type browser struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	// complaints are the faults of scripts and what the page's policy forbids.
	complaints []string
}

func browse(t *testing.T) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(context.WithoutCancel(t.Context()),
		chromedp.WithAllocatorOptions(chromedp.ExecPath(need(t, "UNLOOP_TEST_CHROMIUM")), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(browserPatience)))
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, browserPatience)
	t.Cleanup(func() {
		defer stop()
		if err := chromedp.Cancel(ctx); err != nil { // a browser that is killed leaves files behind
			t.Errorf("close the browser: %v", err)
		}
	})
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(1280, 900))
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return // the tab is closed
			}
			if m.IsException() || m.Type == "error" || m.Source == "security" {
				b.mu.Lock()
				b.complaints = append(b.complaints, m.String())
				b.mu.Unlock()
			}
		}
	}()
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// once waits until an element is seen, and evaluates an expression of it, el. Both happen in one
// step of the page, which may draw its elements anew at any time.
func once[T any](b *browser, selector, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](fmt.Sprintf(`(async () => {
		for (;;) {
			const el = document.querySelector(%q);
			if (el?.checkVisibility()) return %s;
			await new Promise(requestAnimationFrame);
		}
	})()`, selector, expression), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", selector, err)
	}
	return v
}

// see waits for an element that is seen, and returns its text.
func (b *browser) see(selector string) string {
	b.t.Helper()
	return once[string](b, selector, "el.innerText")
}

func (b *browser) click(selector string) {
	b.t.Helper()
	once[bool](b, selector, "(el.click(), true)")
}

// js evaluates an expression in the page and returns its value.
func js[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// A loop appears on the page, is opened by keyboard, released, and disappears; whatever a
// client calls itself, the page shows it as text.
func TestDashboardInABrowserShowsALoopAndReleasesIt(t *testing.T) {
	t.Parallel()
	b := browse(t)
	s := start(t, echo(t), func(cfg *system.Config) { cfg.OverNATS = false })
	b.do(chromedp.Navigate(s.AdminURL() + "/"))
	if text := b.see("#live-empty"); !strings.Contains(text, "No agent is going in circles") {
		t.Errorf("without a loop: %q", text)
	}
	b.see(".connection.live")
	if text := b.see("#well.idle"); !strings.Contains(text, "No request has come yet.") {
		t.Errorf("before a request: %q", text)
	}
	const name = `<img src=x onerror="document.title='owned'">`
	looping := prompt("Try again.")
	looping.header.Set("X-Tenant-ID", name)
	statuses(t, s.URL(), looping, 9)
	stopped := time.Now()
	if text := b.see("#live-rows .loop"); !strings.Contains(text, "the same prompt") || !strings.Contains(text, name) {
		t.Errorf("the loop: %q", text)
	}
	t.Logf("the loop was on the page %s after the last request", time.Since(stopped).Round(time.Millisecond))
	if text := b.see("#well.good"); !strings.Contains(text, "9 requests in the last minute, 9 checked") || !strings.Contains(text, "4 stopped") {
		t.Errorf("with traffic: %q", text)
	}
	id := once[string](b, "#live-rows .lead", "(el.focus(), new URLSearchParams(el.hash.slice(1)).get('loop'))")
	b.do(chromedp.KeyEvent("\r"))
	if text := b.see("#loop-view .story"); !strings.Contains(text, "the same prompt 9 times") || !strings.Contains(text, name) || !strings.Contains(text, "refused its requests") {
		t.Errorf("its story: %q", text)
	}
	if hash := js[string](b, "location.hash"); hash != "#loop="+id {
		t.Errorf("the address of the loop: %s, want its id %s", hash, id)
	}
	if text := b.see("#loop-rounds .prompt"); !strings.Contains(text, "Try again.") {
		t.Errorf("what it repeats: %q", text)
	}
	once[bool](b, "#loop-cost svg[role=img]", "true")
	if text := b.see("#loop-facts"); !strings.Contains(text, "Requests\n") {
		t.Errorf("a field of events that the page does not know: %q", text)
	}
	if text := b.see("#loop-run"); !strings.Contains(text, "the only loop of its session") {
		t.Errorf("its run: %q", text)
	}
	b.click("#loop-findings summary")
	if text := b.see("#loop-findings .finding"); !strings.Contains(text, "threshold 5") {
		t.Errorf("evidence: %q", text)
	}
	b.wantsFitWidths()
	b.do(chromedp.KeyEvent("r"))
	b.see("#loop-buttons .release.sure")
	b.do(chromedp.KeyEvent("\r"))
	b.see("#loop-badges .muted")
	if text := b.see("#loop-audit table"); !strings.Contains(text, "release "+id) {
		t.Errorf("what operators did: %q", text)
	}
	if focus := js[string](b, "document.activeElement.textContent"); focus != "Block…" {
		t.Errorf("after the release the focus is at %q", focus)
	}
	b.do(chromedp.KeyEvent("u"))
	b.see("#live-empty")
	b.click("#past summary")
	if text := b.see("#past-rows .loop"); !strings.Contains(text, "ended") {
		t.Errorf("the ended loop: %q", text)
	}
	if text := b.see("#policy-rows table"); !strings.Contains(text, "default") {
		t.Errorf("policies: %q", text)
	}
	if text := b.see("#parts table"); !strings.Contains(text, "gateway") || !strings.Contains(text, "notifier") {
		t.Errorf("parts: %q", text)
	}
	b.until(`document.title === "Unloop"`)
	b.wantsNoComplaints()
}

// wantsFitWidths fails if the page is wider than a phone or a desk, light or dark.
func (b *browser) wantsFitWidths() {
	b.t.Helper()
	for _, width := range []int64{375, 1280} {
		for _, scheme := range []string{"dark", "light"} {
			b.size(width, scheme)
			if wide := js[float64](b, "document.documentElement.scrollWidth"); wide > float64(width) {
				b.t.Errorf("the page is %g pixels wide on a screen of %d: %s", wide, width, js[string](b, widest))
			}
			if back := js[string](b, "getComputedStyle(document.body).backgroundColor"); (back == "rgb(247, 247, 245)") != (scheme == "light") {
				b.t.Errorf("%s: background %s", scheme, back)
			}
		}
	}
}

// size sets the width of the window, and whether people want it dark or light.
func (b *browser) size(width int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
}

func (b *browser) wantsNoComplaints() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.t.Errorf("the console says: %s", strings.Join(b.complaints, "\n"))
	}
}

// When NATS is away, the page says so in red, and fits every screen.
func TestDashboardInABrowserSaysThatNATSIsAway(t *testing.T) {
	t.Parallel()
	b := browse(t)
	servers, stop := startStoppable(t, echo(t), inProcess)
	s := start(t, echo(t), inProcess, func(cfg *system.Config) { cfg.NATS = servers.NATSURL() })
	m := storeIn(t, servers)
	m.store(1, 8)
	b.visit(s, "")
	b.until(`document.querySelectorAll("#live-rows .loop").length === 7`)
	stop()
	if text := b.see("#well.fault"); !strings.Contains(text, "NATS is away, so requests pass unchecked.") {
		t.Errorf("is all well: %q", text)
	}
	if text := b.see("#banner"); !strings.Contains(text, "can't use NATS") {
		t.Errorf("banner: %q", text)
	}
	for _, width := range []int64{375, 768, 1280, 1920} {
		b.size(width, "dark")
		b.wantsFit(width, fmt.Sprintf("away-%d", width))
	}
	b.wantsNoComplaints()
}

// Messages are silenced by the dialogue; the page says when the port no longer answers.
func TestDashboardInABrowserSilencesAndSaysWhenNobodyAnswers(t *testing.T) {
	t.Parallel()
	b := browse(t)
	s, stop := startStoppable(t, echo(t), func(cfg *system.Config) { cfg.OverNATS = false })
	b.do(chromedp.Navigate(s.AdminURL() + "/"))
	b.see(".connection.live")
	statuses(t, s.URL(), prompt("Once more."), 9)
	b.see("#live-rows .loop")
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("s"))
	b.see("#silence-dialog[open]")
	b.do(chromedp.SendKeys(chromedp.CSS("#silence-author"), "Ada"), chromedp.SendKeys(chromedp.CSS("#silence-comment"), "known"))
	b.click("#silence-form .primary")
	if text := b.see("#silence-rows table"); !strings.Contains(text, "Ada") || !strings.Contains(text, "known") {
		t.Errorf("silences: %q", text)
	}
	b.see("#live-rows .badge.muted")
	if focus := js[string](b, "document.activeElement.textContent"); focus != "Silence…" {
		t.Errorf("after the dialogue the focus is at %q", focus)
	}
	stop()
	if text := b.see("#banner"); !strings.Contains(text, "does not answer") {
		t.Errorf("banner: %q", text)
	}
	if class := js[string](b, "document.getElementById('connection').className"); class != "connection lost" {
		t.Errorf("connection: %q", class)
	}
}
