// Package streak counts the semantic findings of one scope in a row, so that a
// loop that goes on is met with stronger actions, and keeps a verdict that came
// too late for its own request until the scope's next one.
//
// It knows neither texts nor how they are compared.
package streak

import "encoding/json"

// State is what is known of a scope. The zero value is that of a new one.
type State struct {
	// Findings in a row up to now.
	Findings int `json:"n"`
	// Late is the similarity of a finding whose request did not wait for it and
	// that applies to the next one; 0 for none.
	Late float64 `json:"late,omitempty"`
	// Retries since the last judged request.
	Retries int `json:"retries,omitempty"`
}

// maxRetries is how many retries in a row are taken for such: a client can call
// anything its retry, and endless hammering is a loop too.
const maxRetries = 2

// Recalled is what a request finds of the ones before it.
type Recalled struct {
	// Findings in a row up to the last request.
	Findings int
	// Late is the similarity of a finding that applies to this request; 0 for
	// none.
	Late float64
	// Retry says that the request is a retry and not to be judged.
	Retry bool
}

// Recall begins a request. changed says that the state is to be stored.
func Recall(s State, retry bool) (next State, r Recalled, changed bool) {
	next = s
	r = Recalled{Findings: s.Findings, Late: s.Late}
	next.Late = 0
	if retry && s.Retries < maxRetries {
		r.Retry = true
		next.Retries++
	} else {
		next.Retries = 0
	}
	return next, r, next != s
}

// Judge applies a verdict: a finding of that similarity, or none, which ends
// the streak. late says that its request has not waited.
func Judge(s State, found bool, similarity float64, late bool) State {
	if !found {
		s.Findings = 0
		return s
	}
	s.Findings++
	if late {
		s.Late = similarity
	}
	return s
}

// Parse reads what Append wrote.
func (s *State) Parse(stored []byte) error { return json.Unmarshal(stored, s) }

// Append writes the state as JSON after b.
func (s *State) Append(b []byte) []byte {
	body, err := json.Marshal(s)
	if err != nil { // an infinite similarity; what can't be written is forgotten
		return append(b, "{}"...)
	}
	return append(b, body...)
}
