package replay

import "time"

// Report is the result of a run.
type Report struct {
	Bundle string `json:"bundle"`
	// Embedder is the embedder of semantic detection; absent without such policies.
	Embedder string `json:"embedder,omitempty"`
	Files    int    `json:"files"`
	Requests int    `json:"requests"`
	Sessions int    `json:"sessions"`
	// Unwatched counts requests that no policy matches, Unreadable entries that could
	// not be evaluated, OutOfOrder requests that are older than the one before.
	Unwatched  int `json:"unwatched"`
	Unreadable int `json:"unreadable"`
	OutOfOrder int `json:"out_of_order"`
	// From and To are the first and the last recorded time; absent without any.
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
	// Spent is the cost of all requests, Saved of those that would have been stopped.
	Spent Cost `json:"spent"`
	Saved Cost `json:"saved"`
	// DelaySeconds is the sum of the delays by throttles.
	DelaySeconds float64 `json:"delay_seconds"`
	// Actions counts requests by their strongest action, without shadow policies.
	// Requests that operators refuse or exempt have no other action.
	Actions  map[string]int `json:"actions"`
	Operator []*Overridden  `json:"operator"`
	// Limited counts requests that met the limit of a rate, token or cost rule.
	Limited     int          `json:"limited"`
	Incidents   []*Incident  `json:"incidents"`
	Flagged     []*Session   `json:"flagged_sessions"`
	Suggestions []Suggestion `json:"suggestions"`
}

// Cost is a sum of costs of requests.
type Cost struct {
	Requests     int `json:"requests"`
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	// USD is the recorded cost, else the cost by the bundle's prices. Unpriced counts
	// requests that have neither.
	USD      float64 `json:"usd"`
	Unpriced int     `json:"unpriced"`
	// Estimated counts requests without recorded tokens. Their input tokens are
	// estimated from their size, their output tokens are not known.
	Estimated int `json:"estimated"`
}

// Overridden sums up the requests that a kill switch, a block or an exemption applied
// to, by reason.
type Overridden struct {
	Action string `json:"action"` // kill_switch, block or exempt
	Reason string `json:"reason"`
	First  Place  `json:"first"`
	Last   Place  `json:"last"`
	Cost   Cost   `json:"cost"`
}

// Place is the position of a request in its file.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Request is its number in the file, from 1: one line may hold many requests.
	Request int        `json:"request"`
	Time    *time.Time `json:"time,omitempty"`
}

// Incident is one loop: all findings of one policy in one conversation.
type Incident struct {
	ID     string `json:"id"`
	Policy string `json:"policy"`
	// Mode is enforce or shadow; a shadow policy stops nothing.
	Mode      string   `json:"mode"`
	Detectors []string `json:"detectors"`
	Rules     []string `json:"rules,omitempty"`
	Tools     []string `json:"tools,omitempty"`
	// Action is the strongest action, Why its reason in words.
	Action    string `json:"action"`
	Why       string `json:"why"`
	Count     int    `json:"count"`
	Threshold int    `json:"threshold"`
	Session   string `json:"session"`
	Tenant    string `json:"tenant,omitempty"`
	Model     string `json:"model,omitempty"`
	First     Place  `json:"first"`
	Last      Place  `json:"last"`
	// Requests counts the flagged requests, which cost Wasted; Saved is the cost of those
	// that would have been stopped.
	Requests int  `json:"requests"`
	Wasted   Cost `json:"wasted"`
	Saved    Cost `json:"saved"`

	strength int32
}

// Session is a conversation with findings.
type Session struct {
	// Name is the recorded name, else the hash that gateways derive.
	Name     string `json:"session"`
	Requests int    `json:"requests"`
	Flagged  int    `json:"flagged"`
	Stopped  int    `json:"stopped"`
	First    Place  `json:"first_finding"`
}

// Suggestion is a better value for a setting, with the reason.
type Suggestion struct {
	Policy  string `json:"policy"`
	Setting string `json:"setting"`
	Now     string `json:"now"`
	Better  string `json:"suggested"`
	Why     string `json:"why"`
}
