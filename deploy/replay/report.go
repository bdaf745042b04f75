package replay

import "time"

// Report is what a run found.
type Report struct {
	Bundle string `json:"bundle"`
	// Embedder compared texts; absent where no policy asks for that.
	Embedder string `json:"embedder,omitempty"`
	Files    int    `json:"files"`
	Requests int    `json:"requests"`
	Sessions int    `json:"sessions"`
	// Unwatched requests are those that no policy looks at, Unreadable entries
	// those that could not be judged, OutOfOrder those older than the one before.
	Unwatched  int `json:"unwatched"`
	Unreadable int `json:"unreadable"`
	OutOfOrder int `json:"out_of_order"`
	// From and To are the first and last recorded time; absent without any.
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
	// Spent is what all requests cost, Saved what those that would have been
	// stopped did.
	Spent Cost `json:"spent"`
	Saved Cost `json:"saved"`
	// DelaySeconds is how long throttles would have held requests back.
	DelaySeconds float64 `json:"delay_seconds"`
	// Actions counts requests by what would have been done, the strongest for
	// each; without shadow policies. What operators refuse or exempt is judged no
	// further.
	Actions  map[string]int `json:"actions"`
	Operator []*Operated    `json:"operator"`
	// Limited requests are those that a rate, token or cost rule did something
	// about.
	Limited     int          `json:"limited"`
	Incidents   []*Incident  `json:"incidents"`
	Flagged     []*Session   `json:"flagged_sessions"`
	Suggestions []Suggestion `json:"suggestions"`
}

// Cost is what requests cost.
type Cost struct {
	Requests     int `json:"requests"`
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	// USD is what is recorded, else by the bundle's prices. Unpriced requests have
	// neither.
	USD      float64 `json:"usd"`
	Unpriced int     `json:"unpriced"`
	// Estimated requests have no recorded tokens: those of the request are
	// estimated from its size, and those of the answer are not known.
	Estimated int `json:"estimated"`
}

// Operated is what operators had done with requests for one reason: by a kill
// switch, a block or an exemption.
type Operated struct {
	Action string `json:"action"` // kill_switch, block or exempt
	Reason string `json:"reason"`
	First  Place  `json:"first"`
	Last   Place  `json:"last"`
	Cost   Cost   `json:"cost"`
}

// Place is where a request stands.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Request counts the file's requests, from 1: one line may hold many.
	Request int        `json:"request"`
	Time    *time.Time `json:"time,omitempty"`
}

// Incident is one loop: what one policy found in one conversation.
type Incident struct {
	ID     string `json:"id"`
	Policy string `json:"policy"`
	// Mode is enforce or shadow; a shadow policy would have stopped nothing.
	Mode      string   `json:"mode"`
	Detectors []string `json:"detectors"`
	Rules     []string `json:"rules,omitempty"`
	Tools     []string `json:"tools,omitempty"`
	// Action is the strongest one, Why the reason for it in words.
	Action    string `json:"action"`
	Why       string `json:"why"`
	Count     int    `json:"count"`
	Threshold int    `json:"threshold"`
	Session   string `json:"session"`
	Tenant    string `json:"tenant,omitempty"`
	Model     string `json:"model,omitempty"`
	First     Place  `json:"first"`
	Last      Place  `json:"last"`
	// Requests were flagged; those that would have been stopped are in Saved.
	Requests int  `json:"requests"`
	Saved    Cost `json:"saved"`

	strength int32
}

// Session is a conversation in which something was found.
type Session struct {
	// Name is as recorded, else the hash that gateways derive.
	Name     string `json:"session"`
	Requests int    `json:"requests"`
	Flagged  int    `json:"flagged"`
	Stopped  int    `json:"stopped"`
	First    Place  `json:"first_finding"`
}

// Suggestion is another value for a setting, and what speaks for it.
type Suggestion struct {
	Policy  string `json:"policy"`
	Setting string `json:"setting"`
	Now     string `json:"now"`
	Better  string `json:"suggested"`
	Why     string `json:"why"`
}
