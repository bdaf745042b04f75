// Package excerpts describes what gateways show of a loop: the rounds that repeat, as text.
// Gateways keep it in memory, for minutes, and serve it on their admin port to whoever looks;
// it is in no event, log or record.
package excerpts

import "time"

// Path is where the admin port of a gateway serves the excerpts of a loop. {id} stands for
// the loop's id.
const Path = "/api/v1/loops/{id}/rounds"

// Loop is what a loop repeats. If nothing is kept of the loop, it has the id alone.
type Loop struct {
	LoopID string `json:"loop_id"`
	// At is when the request came whose rounds these are.
	At time.Time `json:"at,omitzero"`
	// Prompt is the beginning of the newest human message.
	Prompt string `json:"prompt,omitempty"`
	// Rounds are the newest rounds, oldest first.
	Rounds []Round `json:"rounds,omitempty"`
}

// Round is a call of a tool with its result, or words of the agent's with the answer to
// them. Secrets are masked. Long texts are cut, and then end in "…".
type Round struct {
	Said      string `json:"said,omitempty"`
	Tool      string `json:"tool,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Result    string `json:"result,omitempty"`
}
