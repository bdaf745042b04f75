// Package finding is the catalogue of what detectors find, in words: what a rule compares,
// how people and models are told, and whether waiting helps. Refusals, hints, messages, the
// command line, the API and the dashboard read it, so that a loop has the same name
// everywhere. How loops are found is none of its business.
package finding

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind describes what one rule of a detector finds.
type Kind struct {
	// Detector and Rule are the names in findings. Rule is empty for findings without a rule,
	// and describes rules that are not in the catalogue.
	Detector, Rule string
	// Compares says what is compared, for the reference.
	Compares string
	// Title names the loop in a few words, and Text in full, without a verb. Both may
	// contain {tools}; Text also {n}, the count, and {window}.
	Title, Text string
	// Hint tells the model what it did. Besides the placeholders of Text it may contain
	// {tool}, {period}, {passed}, {between} and {advice}. Next is the advice to a model
	// whose call passes, if it is not the usual one. Advice is given in place of an answer.
	Hint, Next, Advice string
	// Lasting reports that waiting does not let a stopped request pass.
	Lasting bool
	Takes   Takes
}

// Of returns the kind of a finding. A rule that is not in the catalogue is described by its
// detector, and a detector that is not there by its name.
func Of(detector, rule string) *Kind {
	var general *Kind
	for i := range catalogue {
		switch k := &catalogue[i]; {
		case k.Detector != detector:
		case k.Rule == rule:
			return k
		case k.Rule == "":
			general = k
		}
	}
	if general == nil {
		return &Kind{Detector: detector, Title: detector, Text: detector + " {n} times{window}"}
	}
	return general
}

// DetectorOf returns the detector whose rule has the name.
func DetectorOf(rule string) string {
	for i := range catalogue {
		if k := &catalogue[i]; k.Rule == rule || k.Rule == "" && k.Detector == rule {
			return k.Detector
		}
	}
	return Tool
}

// Catalogue returns all kinds, by detector.
func Catalogue() []Kind { return append([]Kind(nil), catalogue...) }

// Facts are the facts about a finding.
type Facts struct {
	Detector, Rule string
	// Tool is the name of the tool that was called; of a cycle, the names of all, separated
	// by commas.
	Tool             string
	Count, Threshold int
	// Window is the time in which the hits were counted; 0 for none.
	Window time.Duration

	// The fields below are known to the detector alone, and only Hint uses them.

	// Action is what is done, such as "reject".
	Action string
	// Period is the number of rounds of a cycle.
	Period int
	// Passed is the time from the first to the newest occurrence of a poll; 0 if unknown.
	Passed time.Duration
	// Backoff is the number of seconds to wait before the next poll; 0 for other calls.
	Backoff int
	// Worked reports that other work was done between the occurrences, Once that the call
	// takes effect each time, and Similar that the calls are nearly the same.
	Worked, Once, Similar bool
}

// Title names the loop in a few words, such as "the same error (bash)".
func (f Facts) Title() string { return f.Fill(Of(f.Detector, f.Rule).Title) }

// Text says what was found, and how often, such as "the same error of a tool (bash) 5
// times".
func (f Facts) Text() string {
	text, _ := f.templates()
	return f.Fill(text)
}

// templates returns the texts of the kind, or those of a special case of it.
func (f Facts) templates() (text, hint string) {
	k := Of(f.Detector, f.Rule)
	switch {
	case f.Rule == Breaker && f.Threshold > 0 && f.Count > f.Threshold:
		return "{n} tool calls since the last human message", "There were {n} tool calls since the last human message; the limit is {threshold}. {advice}"
	case f.Detector == Semantic && f.Count == 1:
		return "a message that says again, in other words, what was said before", "The newest message says again, in other words, what was said before."
	case f.Similar:
		return k.Text, "Nearly the same call of the {tool} has failed alike {n} times. {advice}"
	}
	return k.Text, k.Hint
}

// Sentence returns Text as a sentence.
func (f Facts) Sentence() string {
	text := f.Text()
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:] + "."
}

// Fill puts the facts into a template of a Kind.
func (f Facts) Fill(template string) string {
	names := f.tools()
	tools, tool := "", "tool"
	if names != "" {
		tools, tool = " ("+names+")", "tool "+names
	}
	window := ""
	if f.Window > 0 {
		window = " within " + span(f.Window)
	}
	return strings.NewReplacer(
		"{n}", strconv.Itoa(f.Count), "{tools}", tools, "{tool}", tool, "{window}", window, "{threshold}", strconv.Itoa(f.Threshold),
		"{period}", strconv.Itoa(f.Period), "{passed}", f.passed(), "{between}", f.between(), "{advice}", f.advice(),
	).Replace(template)
}

// maxTools bounds the names of tools in a text, in bytes: what follows them, such as the code of an
// error, stands near its beginning, where transcripts look for it.
const maxTools = 64

func (f Facts) tools() string {
	names := strings.ReplaceAll(f.Tool, ",", ", ")
	if len(names) > maxTools {
		names = strings.ToValidUTF8(names[:maxTools], "") + "…"
	}
	return names
}

// span formats a duration in one unit.
func span(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= 2*unit.of && d%unit.of == 0 {
			return fmt.Sprintf("%d %s", d/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%d seconds", d/time.Second)
}
