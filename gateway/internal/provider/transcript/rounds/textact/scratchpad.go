package textact

import "bytes"

// Step is one action of a scratchpad with its result.
type Step struct {
	Action Action
	Result []byte
}

// questions are the labels of the task in a prompt that has examples before it.
var questions = []string{"Question", "Task", "Query", "Claim", "Goal"}

// Scratchpad reads a prompt into which an agent wrote its own rounds, as ReAct does: lines
// of Thought, Action and Observation. It returns the steps and where the first of them
// begins. There are none in a prompt with fewer than two.
func Scratchpad(text []byte) (steps []Step, begin int) {
	if bytes.Count(text, []byte("Observation")) < 2 || bytes.Count(text, []byte("Action")) < 2 {
		return nil, 0
	}
	from := 0
	for _, q := range questions {
		if at, _ := lastLabel(text, q); at > from {
			from = at
		}
	}
	begin = len(text)
	rest := text[from:]
	for offset := from; ; {
		at, _ := firstLabel(rest, "Action")
		if at < 0 {
			break
		}
		observed, after := firstLabel(rest[at:], "Observation")
		if observed < 0 {
			break
		}
		result := rest[at+after:]
		end := nextStep(result)
		a := labelled(rest[at : at+observed])
		if a.Form != None && end >= 0 { // an action at the end has no result yet
			steps = append(steps, Step{Action: a, Result: Result(bytes.Clone(result[:end]))})
			begin = min(begin, thoughtBefore(text, from, offset+at))
		}
		if end < 0 {
			break
		}
		offset += at + after + end
		rest = result[end:]
	}
	if len(steps) < 2 {
		return nil, 0
	}
	return steps, begin
}

// nextStep returns where the next thought or action begins; -1 for none.
func nextStep(text []byte) int {
	next := -1
	for _, label := range []string{"Thought", "Action", "Final Answer"} {
		if at, _ := firstLabel(text, label); at >= 0 && (next < 0 || at < next) {
			next = at
		}
	}
	return next
}

// thoughtBefore returns where the thought before the action at an index begins.
func thoughtBefore(text []byte, from, at int) int {
	if thought, _ := firstLabel(text[from:at], "Thought"); thought >= 0 {
		return from + thought
	}
	return at
}
