package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// visit opens an address of the page of a system.
func (b *browser) visit(s *system.System, fragment string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(s.AdminURL()+"/"+fragment))
	b.see(".connection.live")
}

// choose chooses an option of a select.
func (b *browser) choose(selector, value string) {
	b.t.Helper()
	once[bool](b, selector, fmt.Sprintf("(el.value = %q, el.dispatchEvent(new Event('input', { bubbles: true })), el.dispatchEvent(new Event('change')), true)", value))
}

// titles returns the titles of the listed loops or groups, and how often each is there.
func (b *browser) titles() (all []string) {
	b.t.Helper()
	return js[[]string](b, `[...document.querySelectorAll(".rows:not([hidden]) > * .title")].map((el) => el.innerText)`)
}

// Many loops are grouped, sorted, searched and turned over; each view has an address of its own.
func TestDashboardInABrowserListsManyLoops(t *testing.T) {
	t.Parallel()
	b := browse(t)
	s := start(t, echo(t), inProcess)
	storeIn(t, s).store(1, 131)
	b.visit(s, "")
	b.until(`document.getElementById("live-count").innerText === "130 loops"`)
	if text := b.see("#pager"); !strings.Contains(text, "1–50 of 130") {
		t.Errorf("pages: %q", text)
	}
	b.do(chromedp.KeyEvent("n"))
	b.until(`document.getElementById("pager").innerText.includes("51–100 of 130")`)
	b.until(`location.hash === "#page=2"`)
	b.choose("#sort", "hits")
	b.until(`document.getElementById("pager").innerText.includes("1–50 of") && document.querySelector("#live-rows .hits strong").innerText === "52"`)
	b.choose("#group", "tool")
	b.until(`document.getElementById("live-count").innerText === "33 groups of 130 loops"`) // thirty tools, two of cycles, a long name
	if titles := b.titles(); !slices.Contains(titles, "read_file") || !slices.Contains(titles, "write_file") {
		t.Errorf("a loop with two tools is not in the group of each: %q", titles)
	}
	if hash := js[string](b, "location.hash"); hash != "#group=tool&sort=hits" {
		t.Errorf("address %s", hash)
	}
	once[bool](b, `#group-rows a[href*="tool=write_file"]`, "(el.click(), true)")
	b.until(`document.getElementById("live-count").innerText === "18 loops"`)
	if chip := b.see("#only .chip"); !strings.Contains(chip, "tool: write_file") {
		t.Errorf("what it is narrowed to: %q", chip)
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#filter"), "tenant-3 hint"))
	b.until(`document.getElementById("live-count").innerText === "1 loop"`)
	address := js[string](b, "location.hash")
	b.visit(s, address)
	b.until(`document.getElementById("live-count").innerText === "1 loop" && document.getElementById("filter").value === "tenant-3 hint"`)
	b.visit(s, "#loop=LOOP00007")
	if text := b.see("#loop-title"); !strings.Contains(text, "tool_7") {
		t.Errorf("the loop of the address: %q", text)
	}
	b.visit(s, "#loop=nobody")
	b.until(`document.getElementById("loop-story").innerText.includes("no loop with this id")`)
}

// A selection is blocked and let through again by the page; the focus stays where it is.
func TestDashboardInABrowserBlocksWhoIsSelected(t *testing.T) {
	t.Parallel()
	b := browse(t)
	s := start(t, echo(t), inProcess)
	looping := prompt("Try again.")
	looping.header.Set("X-Tenant-ID", "acme")
	statuses(t, s.URL(), looping, 9)
	b.visit(s, "")
	b.see("#live-rows .loop")
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("x"))
	b.see("#live-rows .selected")
	b.click("#selected button:nth-of-type(2)")
	b.see("#block-dialog[open]")
	if command := b.see("#block-command"); !strings.HasPrefix(command, "unloop block --session ") || !strings.HasSuffix(command, " --for 1h") {
		t.Errorf("the command for it: %s", command)
	}
	once[bool](b, "#block-target label:nth-of-type(2) input", "(el.click(), true)")
	b.do(chromedp.SendKeys(chromedp.CSS("#block-author"), "Ada"), chromedp.SendKeys(chromedp.CSS("#block-reason"), "it's stuck"))
	if command := b.see("#block-command"); !strings.HasPrefix(command, "unloop block --caller ") || !strings.HasSuffix(command, ` --for 1h --reason 'it'\''s stuck'`) {
		t.Errorf("the command for it: %s", command)
	}
	b.click("#block-submit")
	if text := b.see("#override-rows table"); !strings.Contains(text, "it's stuck") {
		t.Errorf("overrides: %q", text)
	}
	if status := statuses(t, s.URL(), prompt("Something else."), 1)[0]; status != http.StatusForbidden {
		t.Errorf("another request of the blocked caller: status %d", status)
	}
	b.click("#override-rows .confirmed")
	b.click("#override-rows .confirmed.sure")
	b.until(`document.getElementById("override-rows").innerText === ""`)
	if status := statuses(t, s.URL(), prompt("Something else."), 1)[0]; status != http.StatusOK {
		t.Errorf("after the block: status %d", status)
	}
	once[bool](b, "#live-rows .release", "(el.focus(), el.click(), true)")
	covered := js[bool](b, `[...document.querySelectorAll("#live-rows .loop > *")].some((el) => { const a = el.getBoundingClientRect(), r = document.querySelector(".sure").getBoundingClientRect(); return !el.contains(document.querySelector(".sure")) && a.right > r.left && a.left < r.right && a.bottom > r.top && a.top < r.bottom; })`)
	if covered {
		t.Error("the question covers something")
	}
	b.do(chromedp.KeyEvent("\r"))
	b.see("#live-empty")
	if focus := js[string](b, "document.activeElement.id"); focus != "live" {
		t.Errorf("after the last loop is released the focus is at %q", focus)
	}
	b.wantsNoComplaints()
}

// Where records need the operator's seal, the page shows the command.
func TestDashboardInABrowserShowsTheCommandForABlock(t *testing.T) {
	t.Parallel()
	_, public, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	trust, err := seal.NewTrust(public)
	if err != nil {
		t.Fatal(err)
	}
	b := browse(t)
	s := start(t, echo(t), inProcess, func(cfg *system.Config) { cfg.Trust = trust })
	storeIn(t, s).store(3, 4)
	b.visit(s, "#loop=LOOP00003")
	b.see("#loop-buttons button")
	b.do(chromedp.KeyEvent("b"))
	if text := b.see("#block-why"); !strings.Contains(text, "seal") {
		t.Errorf("why not: %q", text)
	}
	if text := b.see("#block-command"); text != fmt.Sprintf("unloop block --session 5e55%028d --for 1h", 1) {
		t.Errorf("the command: %q", text)
	}
	if js[bool](b, `document.getElementById("block-submit").checkVisibility()`) {
		t.Error("a button says that it blocks")
	}
}

// The page shows a new loop within a second while it has 5,000 others, and a hundred of those
// change each second.
func TestDashboardInABrowserShowsANewLoopAmongManyAtOnce(t *testing.T) {
	t.Parallel()
	b := browse(t)
	s := start(t, echo(t), inProcess)
	m := storeIn(t, s)
	m.store(1, 5001)
	b.visit(s, "")
	b.until(`document.getElementById("live-count").innerText === "5,000 loops"`)
	js[bool](b, `(window.asked = 0, window.fetched = window.fetch, window.fetch = (...all) => (window.asked++, window.fetched(...all)), true)`)
	fastest, slowest := browserPatience, time.Duration(0)
	const rounds = 5
	begun := time.Now()
	for i := range rounds {
		m.store(1000*i+1, 1000*i+101) // others change
		m.begun = time.Now()
		stored := time.Now()
		m.store(6000+3000*i, 6001+3000*i) // the newest loop stands first
		b.until(fmt.Sprintf(`document.querySelector("#live-rows .lead")?.hash === "#loop=LOOP%05d"`, 6000+3000*i))
		took := time.Since(stored)
		fastest, slowest = min(fastest, took), max(slowest, took)
		t.Logf("a new loop was on the page after %s", took.Round(time.Millisecond))
	}
	each := float64(js[int](b, "window.asked")) / time.Since(begun).Seconds()
	t.Logf("the slowest took %s; the page asked %.1f times a second", slowest.Round(time.Millisecond), each)
	if fastest > time.Second {
		t.Errorf("none of %d new loops was on the page within a second", rounds)
	}
	if each > 30 {
		t.Errorf("the page asks %.1f times a second", each)
	}
}
