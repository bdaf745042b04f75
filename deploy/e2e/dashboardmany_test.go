package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/openloop"
)

// manyLoops are open loops that tests store as detectors do.
type manyLoops struct {
	t     *testing.T
	js    jetstream.JetStream
	begun time.Time
}

func storeIn(t *testing.T, s *system.System) *manyLoops {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(500))
	if err != nil {
		t.Fatal(err)
	}
	return &manyLoops{t: t, js: js, begun: time.Now()}
}

// long is a name without a place to break it.
var long = strings.Repeat("a-very-long-name", 12)

// record is the i-th loop: every twentieth has long names, every seventh several tools.
func (m *manyLoops) record(i int) openloop.Record {
	actions := []string{"warn", "hint", "throttle", "reject", "break"}
	first := m.begun.Add(-time.Duration(i%3000) * time.Second)
	usd := float64(i%40) / 7
	in := openloop.Record{Tenant: fmt.Sprint("tenant-", i%6), Project: fmt.Sprint("project-", i%9), RequestID: fmt.Sprint("r", i), Ends: m.begun.Add(2 * time.Hour), Announced: true, Data: event.Data{
		LoopID: fmt.Sprintf("LOOP%05d", i), Policy: fmt.Sprint("policy-", i%4), Detector: "tool", Mode: event.ModeEnforce, Action: actions[i%5], HitCount: 3 + i%50, Threshold: 3,
		WindowSeconds: 600, Model: "gpt-4o", Session: fmt.Sprintf("5e55%028d", i/3), Caller: fmt.Sprintf("ca11%028d", i%25), FirstSeen: first, LastSeen: first.Add(time.Duration(i%600) * time.Second),
		Findings: []event.Finding{{Detector: "tool", Action: actions[i%5], HitCount: 3 + i%50, Threshold: 3, Tool: fmt.Sprint("tool_", i%30), Calls: []event.Call{{Tool: fmt.Sprint("tool_", i%30), Call: "0123456789abcdef", Result: "fedcba9876543210"}}}},
		Saved:    event.Saved{Requests: i % 40, InputTokens: (i % 40) * 900, USD: &usd},
	}}
	if i%11 == 0 {
		in.Mode = event.ModeShadow
	}
	if i%7 == 0 {
		in.Findings = append(in.Findings, event.Finding{Detector: "prompt", Action: "warn", HitCount: 5}, event.Finding{Detector: "cycle", Action: "hint", Rule: "cycle", Tool: "read_file,write_file", HitCount: 4})
	}
	if i%20 == 0 {
		in.Tenant, in.Policy, in.Findings[0].Tool, in.Model = long, long, long, long
	}
	return in
}

// store stores loops from..to and waits until the server has them.
func (m *manyLoops) store(from, to int) {
	m.t.Helper()
	var last jetstream.PubAckFuture
	for i := from; i < to; i++ {
		in := m.record(i)
		ack, err := m.js.PublishAsync("$KV."+schemas.BucketIncidents+".live.p."+in.LoopID, in.Append(nil), jetstream.WithStallWait(browserPatience))
		if err != nil {
			m.t.Fatal(err)
		}
		last = ack
	}
	if last == nil {
		return
	}
	<-m.js.PublishAsyncComplete()
	select {
	case <-last.Ok():
	case err := <-last.Err():
		m.t.Fatal(err)
	case <-m.t.Context().Done():
	}
}

// until waits until an expression of the page is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf("(async () => { while (!(%s)) await new Promise(requestAnimationFrame); return true; })()", expression), chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// picture keeps a picture of the page in the folder that UNLOOP_TEST_PICTURES names.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("UNLOOP_TEST_PICTURES")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// wantsFit fails if the page is wider than the window, or has no end.
func (b *browser) wantsFit(width int64, what string) {
	b.t.Helper()
	size := js[[]float64](b, "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
	if size[0] > float64(width) {
		b.t.Errorf("%s: the page is %g pixels wide on a screen of %d: %s", what, size[0], width, js[string](b, widest))
	}
	const tallest = 9000
	if size[1] > tallest {
		b.t.Errorf("%s: the page is %g pixels high on a screen of %d", what, size[1], width)
	}
	b.t.Logf("%s: %d pixels wide, %g high", what, width, size[1])
	b.picture(what)
}

// widest names what is wider than the window.
const widest = `[...document.querySelectorAll("main *")].filter((el) => el.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map((el) => el.tagName + "." + el.className + "#" + el.id).join(" ")`

// wantsAccess fails if axe finds a violation.
func (b *browser) wantsAccess(what string) {
	b.t.Helper()
	report, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
		`axe.run().then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.help, ...v.nodes.slice(0, 4).map((n) => n.html.slice(0, 200) + " " + n.failureSummary)])))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: axe: %v", what, err)
	}
	var violations [][]string
	if err := json.Unmarshal([]byte(report), &violations); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range violations {
		b.t.Errorf("%s: axe: %s", what, strings.Join(v, "\n  "))
	}
}

// loadAxe has the page know axe-core, as the console would.
func (b *browser) loadAxe() {
	b.t.Helper()
	script, err := os.ReadFile(filepath.Join(need(b.t, "UNLOOP_TEST_NODE_MODULES"), "axe-core", "axe.min.js"))
	if err != nil {
		b.t.Fatal(err)
	}
	js[bool](b, string(script)+"\n;true")
}

// The page fits every screen, whatever it has to show.
func TestDashboardInABrowserFitsEveryScreen(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 5, 200, 5000} {
		t.Run(fmt.Sprint(n, " loops"), func(t *testing.T) {
			t.Parallel()
			b := browseLoops(t, n)
			for _, width := range []int64{1920, 1280, 768, 375} {
				for _, scheme := range []string{"light", "dark"} {
					b.size(width, scheme)
					b.looks(n, func(what string) {
						b.wantsFit(width, fmt.Sprintf("%d-%d-%s-%s", n, width, scheme, what))
					})
				}
			}
			b.wantsNoComplaints()
		})
	}
}

// People who do not see the page can use it, dark or light.
func TestDashboardInABrowserIsAccessible(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			b := browseLoops(t, 60)
			b.loadAxe()
			b.size(1280, scheme)
			b.looks(60, b.wantsAccess)
			b.size(375, scheme)
			b.looks(60, b.wantsAccess)
			b.wantsNoComplaints()
		})
	}
}

// browseLoops opens the page of a system with n open loops.
func browseLoops(t *testing.T, n int) *browser {
	t.Helper()
	b := browse(t)
	s := start(t, echo(t), inProcess)
	storeIn(t, s).store(0, n)
	b.do(chromedp.Navigate(s.AdminURL() + "/"))
	b.see(".connection.live")
	if n == 0 {
		b.see("#live-empty")
		return b
	}
	b.until(fmt.Sprintf(`document.getElementById("live-count").innerText === "%s loops"`, thousands(n)))
	return b
}

// looks looks at the list, at groups, at a loop and at the dialogues.
func (b *browser) looks(n int, check func(what string)) {
	b.t.Helper()
	settled := func(what string) {
		b.t.Helper()
		once[bool](b, "body", "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))")
		check(what)
	}
	if n == 0 {
		settled("list")
		return
	}
	b.see("#live-rows .loop")
	b.until(`document.querySelectorAll("#live-rows > *").length === Math.min(` + fmt.Sprint(n) + `, innerWidth < 720 ? 20 : 50)`)
	settled("list")
	b.click("#live-rows .check input")
	b.see("#selected .release")
	settled("selection")
	b.click("#selected button:last-child")
	js[bool](b, `(location.hash = "#group=tool", true)`)
	b.see("#group-rows .group")
	settled("groups")
	js[bool](b, `(location.hash = "#loop=LOOP00000", true)`)
	b.see("#loop-view .story")
	b.see("#loop-run table")
	settled("loop")
	for key, dialog := range map[string]string{"b": "block", "s": "silence", "?": "keys"} {
		b.do(chromedp.KeyEvent(key))
		b.see("#" + dialog + "-dialog[open]")
		settled(dialog)
		b.click("#" + dialog + "-dialog menu button")
	}
	js[bool](b, `(location.hash = "#live=", true)`)
}

// thousands writes a number as the page does.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
