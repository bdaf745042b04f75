package policy

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Default returns the bundle that is in force if there is no other: one policy,
// "default", with the prompt, tool, cycle and semantic detectors. The environment
// variables of other loop guards change its values; getenv is os.Getenv, or nil for no
// variables. The error names every faulty variable and the allowed values.
func Default(getenv func(string) string) (*Bundle, error) {
	spec := DefaultSpec()
	spec.Selector.Methods = Strings{"POST"}
	spec.Prompt, spec.Tool, spec.Cycle, spec.Semantic = DefaultPrompt(), DefaultTool(), DefaultCycle(), DefaultSemantic()
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	env := environment{getenv: getenv}
	env.int("LOOP_GUARD_WINDOW_SECONDS", &spec.Prompt.WindowSeconds, 1, 2592000)
	env.int("LOOP_GUARD_MAX_HITS", &spec.Prompt.MaxHits, 0, 10000)
	env.int("LOOP_GUARD_COOLDOWN_SECONDS", &spec.Prompt.CooldownSeconds, 0, 2592000)
	env.float("LOOP_SIMILARITY_THRESHOLD", &spec.Semantic.Threshold, 0, 1)
	env.int("LOOP_HISTORY_SIZE", &spec.Semantic.HistorySize, 1, 100)
	env.duration("LOOP_EMBEDDING_TTL", &spec.Semantic.TTLSeconds, time.Second, 2592000)
	env.duration("LOOP_EMBEDDING_SIDECAR_TIMEOUT", &spec.Semantic.BudgetMS, time.Millisecond, 60000)
	env.text("LOOP_INTERVENTION_MESSAGE", &spec.Hint.Text)
	on := true
	env.bool("LOOP_DETECTION_ENABLED", &on)
	for _, enabled := range []*bool{&spec.Prompt.Enabled, &spec.Tool.Enabled, &spec.Cycle.Enabled, &spec.Semantic.Enabled} {
		*enabled = on
	}
	// A history of one can't have two matches.
	spec.Semantic.MinMatches = min(spec.Semantic.MinMatches, spec.Semantic.HistorySize)
	if err := errors.Join(env.errs...); err != nil {
		return nil, err
	}
	b := &Bundle{BundleVersion: 1, Policies: []Entry{{ID: "default", Spec: spec}}}
	return b, b.Validate()
}

// maxText is the most that a text of the environment may have, in bytes.
const maxText = 4096

// environment reads variables and gathers their faults. An empty variable counts as
// absent.
type environment struct {
	getenv func(string) string
	errs   []error
}

// set parses a variable into field. allowed describes the values that parse accepts.
func set[T any](e *environment, name string, field *T, allowed string, parse func(string) (T, bool)) {
	value := e.getenv(name)
	if value == "" {
		return
	}
	if parsed, ok := parse(value); ok {
		*field = parsed
		return
	}
	if len(value) > maxText {
		value = value[:32] + "…"
	}
	e.errs = append(e.errs, fmt.Errorf("%s=%q: must be %s", name, value, allowed))
}

func (e *environment) int(name string, field *int, least, most int) {
	set(e, name, field, fmt.Sprintf("an integer from %d to %d", least, most), func(value string) (int, bool) {
		n, err := strconv.Atoi(value)
		return n, err == nil && n >= least && n <= most
	})
}

func (e *environment) float(name string, field *float64, least, most float64) {
	set(e, name, field, fmt.Sprintf("a number from %s to %s", format(least), format(most)), func(value string) (float64, bool) {
		f, err := strconv.ParseFloat(value, 64)
		return f, err == nil && f >= least && f <= most
	})
}

// duration reads a plain number of units, or a Go duration such as 50ms.
func (e *environment) duration(name string, field *int, unit time.Duration, most int) {
	allowed := fmt.Sprintf("a duration such as %s, or a plain number from 1 to %d of units of %s", time.Duration(30)*unit, most, unit)
	set(e, name, field, allowed, func(value string) (int, bool) {
		n, err := strconv.Atoi(value)
		if err != nil {
			var d time.Duration
			d, err = time.ParseDuration(value)
			n = int(d / unit)
		}
		return n, err == nil && n >= 1 && n <= most
	})
}

func (e *environment) bool(name string, field *bool) {
	set(e, name, field, "true or false", func(value string) (bool, bool) {
		b, err := strconv.ParseBool(value)
		return b, err == nil
	})
}

func (e *environment) text(name string, field *string) {
	set(e, name, field, fmt.Sprintf("at most %d bytes", maxText), func(value string) (string, bool) {
		return value, len(value) <= maxText
	})
}
