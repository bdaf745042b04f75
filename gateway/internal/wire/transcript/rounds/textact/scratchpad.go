package textact

import "bytes"

// Step is one action of a scratchpad, with its result and the text after it.
type Step struct {
	Action Action
	Answer []byte
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
	for at := from; ; {
		acted, _ := firstLabel(text[at:], "Action")
		if acted < 0 {
			break
		}
		acted += at
		observed, after := firstLabel(text[acted:], "Observation")
		if observed < 0 {
			break
		}
		result := text[acted+after:]
		end, _ := firstLabel(result, "Thought", "Action", "Final Answer")
		if end < 0 { // an action at the end has no result yet
			break
		}
		if a := labelled(text[acted : acted+observed]); a.Form != None {
			if len(steps) == 0 {
				begin = thoughtBefore(text, from, acted)
			}
			steps = append(steps, Step{Action: a, Answer: result[:end]})
		}
		at = acted + after + end
	}
	if len(steps) < 2 {
		return nil, 0
	}
	return steps, begin
}

// thoughtBefore returns where the thought before the action at an index begins.
func thoughtBefore(text []byte, from, at int) int {
	if thought, _ := firstLabel(text[from:at], "Thought"); thought >= 0 {
		return from + thought
	}
	return at
}
