package policy

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// defaultMaxCompletion is Fairvisor's reservation for an answer, in tokens.
const defaultMaxCompletion = 1000

// DefaultHint is the text of Agent Sentinel's intervention.
const DefaultHint = "You seem to be repeating similar requests. Please take a different approach or consider that " +
	"the previous attempts may have already addressed your question."

// DefaultErrorPatterns find failed tool results, for wire formats that do not mark them
// (RE2).
var DefaultErrorPatterns = []string{
	`(?i)^\s*(error|fatal|exception|failed|failure)\b`,
	`^\s*Traceback \(most recent call last\)`,
	`(?i)^\s*\{\s*"(error|err)"\s*:\s*["{]`,
	`(?i)\b(command not found|no such file or directory|permission denied)\s*$`,
	`(?i)\bexit (code|status):? [1-9]\d*\s*$`,
}

// DefaultSpec returns a policy that enforces, fails open and has no detector.
func DefaultSpec() Spec { return *withDefaults[Spec]() }

// DefaultPrompt returns the loop guard that the variables LOOP_GUARD_… configure: more than
// 5 in 60 s, then 30 s of cooldown.
func DefaultPrompt() *Prompt { return withDefaults[Prompt]() }

// DefaultTool returns LibreFang's thresholds. Its circuit breaker (30) is off, since honest
// coding agents make hundreds of calls.
func DefaultTool() *Tool { return withDefaults[Tool]() }

// DefaultCycle fires at the third repeat of any period up to 8, and when at least 24 of the
// last 30 rounds are less than 40 % distinct calls.
func DefaultCycle() *Cycle { return withDefaults[Cycle]() }

// DefaultSemantic has Agent Sentinel's threshold, history and TTL; it asks for two matches
// where the source takes one.
func DefaultSemantic() *Semantic { return withDefaults[Semantic]() }

// withDefaults returns a block with the defaults of its fields.
func withDefaults[B any]() *B {
	block := new(B)
	setDefaults(reflect.ValueOf(block).Elem())
	return block
}

// setDefaults sets the defaults from the tags of a block's fields, and the texts above, which
// are too long for tags.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v) {
		if f.standard != "" {
			setText(f.value, f.standard)
		} else if f.value.Kind() == reflect.Struct {
			setDefaults(f.value)
		}
	}
	switch block := v.Addr().Interface().(type) {
	case *HintText:
		block.Text = DefaultHint
	case *Tool:
		block.ErrorPatterns = slices.Clone(DefaultErrorPatterns)
	}
}

// setText sets a value by its text in a tag; the elements of a list stand between commas.
// A test reads all of them.
func setText(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		n, _ := strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
	case reflect.Float64:
		f, _ := strconv.ParseFloat(text, 64)
		v.SetFloat(f)
	case reflect.Slice:
		v.SetZero()
		for part := range strings.SplitSeq(text, ",") {
			element := reflect.New(v.Type().Elem()).Elem()
			setText(element, part)
			v.Set(reflect.Append(v, element))
		}
	default:
		v.SetString(text)
	}
}
