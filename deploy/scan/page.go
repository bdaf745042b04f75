package scan

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/schemas/excerpts"
	"github.com/unloop/unloop/schemas/money"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.js
	script string
)

var page = template.Must(template.New("page").Parse(pageText))

// maxOnPage is the maximum number of loops on a page: a browser shows them at once.
const maxOnPage = 200

type pageData struct {
	*Report
	Share         string
	Wasted, Saved pageCost
	Took          string
	Loops         []pageLoop
	More          int
	From, To      string
	Estimated     bool
	Verdicts      []Verdict
	Script        template.JS
	// ScriptHash is for the page's Content-Security-Policy, which allows only that script.
	ScriptHash string
}

type pageCost struct{ Requests, Tokens, USD string }

type pageLoop struct {
	What, Why, File, Agent, Model, Took, USD string
	Did                                      Did
	Requests, SessionRequests                int
	Prompt                                   string
	Rounds                                   []pageRound
	// Number is that on the page. Digest and Session are for labels; both are "" if the session
	// has to be masked.
	Number          int
	Digest, Session string
}

type pageRound struct {
	excerpts.Round
	// SameCall and SameResult say what it repeats of the round before.
	SameCall, SameResult bool
}

// WritePage writes a report as a self-contained page, which loads and sends nothing. Its script
// collects labels.
func WritePage(w io.Writer, r *Report, m Masking) error {
	hash := sha256.Sum256([]byte(script))
	data := pageData{
		Verdicts: []Verdict{Right, Wrong, Unsure}, Script: template.JS(script), //nolint:gosec // our own
		ScriptHash: "sha256-" + base64.StdEncoding.EncodeToString(hash[:]),
		Report:     r, Share: fmt.Sprintf("%.0f %%", 100*float64(r.Looped)/float64(max(1, r.Sessions))),
		Wasted: costOf(r.Wasted), Saved: costOf(r.Saved), Took: Lasting(r.WastedSeconds), Estimated: r.Spent.Estimated > 0,
	}
	if r.From != nil {
		data.From, data.To = r.From.Format(time.DateOnly), r.To.Format(time.DateOnly)
	}
	for i, l := range r.Loops[:min(maxOnPage, len(r.Loops))] {
		one := pageLoopOf(l, m)
		if one.Number = i; m.Text(l.Session) == l.Session {
			one.Digest, one.Session = l.file.digest(), l.Session
		}
		data.Loops = append(data.Loops, one)
	}
	data.More = len(r.Loops) - len(data.Loops)
	return page.Execute(w, data)
}

func pageLoopOf(l *Loop, m Masking) pageLoop {
	out := pageLoop{
		What: m.Text(l.What()), Why: capital(m.Text(l.Text)), File: m.Text(filepath.Base(filepath.Dir(l.First.File)) + "/" + filepath.Base(l.First.File)),
		Agent: l.file.title(), Model: l.Model, Took: Lasting(l.Seconds), USD: costOf(l.Wasted).USD, Did: l.Did,
		Requests: l.Requests, SessionRequests: l.SessionRequests, Prompt: m.Text(l.Shown.Prompt),
	}
	for i, round := range l.Shown.Rounds {
		shown := pageRound{Round: excerpts.Round{Said: m.Text(round.Said), Tool: round.Tool, Arguments: m.Text(round.Arguments), Result: m.Text(round.Result)}}
		if i > 0 {
			before := l.Shown.Rounds[i-1]
			shown.SameCall = before.Tool == round.Tool && before.Arguments == round.Arguments
			shown.SameResult = before.Result == round.Result
		}
		out.Rounds = append(out.Rounds, shown)
	}
	return out
}

func costOf(c replay.Cost) pageCost {
	out := pageCost{Requests: grouped(c.Requests), Tokens: grouped(c.InputTokens + c.OutputTokens)}
	if c.USD > 0 {
		out.USD = money.USD(c.USD)
	}
	return out
}

// capital returns s with a capital first letter.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// grouped formats a number with spaces between groups of three digits.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// Lasting formats a duration in its largest units; "" for less than a second.
func Lasting(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d > 0:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return ""
}
