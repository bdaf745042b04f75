// Package excerpts describes the text of the repeated rounds of a loop. Gateways keep it in
// memory for minutes and serve it on their admin port; it is in no event, log or record.
package excerpts

import "time"

// Path is where the admin port of a gateway serves the excerpts of a loop. {id} stands for
// the loop's id.
const Path = "/api/v1/loops/{id}/rounds"

// Loop has the repeated rounds of a loop, or only the id if nothing is kept.
type Loop struct {
	LoopID string `json:"loop_id"`
	// At is when the request with these rounds came.
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
