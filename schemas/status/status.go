// Package status defines what the running parts of Unloop report about themselves: the
// JSON replies to a request on schemas.SubjectStatus.
//
// It does not know who asks, or how a part finds out.
package status

import "time"

// Status is the reply of one part. Unknown fields are ignored by readers.
type Status struct {
	// Service is the name of the part, such as gateway.
	Service string `json:"service"`
	// ID is unique among running parts.
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Ready   bool      `json:"ready"`
	// Reason says why the part is not ready.
	Reason string `json:"reason,omitempty"`
	// Remarks are what an operator should mend although the part does its work.
	Remarks []string `json:"remarks,omitempty"`
	// Server is the name of the NATS server that the part is connected to.
	Server string `json:"server,omitempty"`
	// Refused is how many messages and subscriptions the NATS server refused the part; 0 if it
	// refused none lately.
	Refused uint64 `json:"refused,omitempty"`
	// MissingReplicas is, by stream, how many replicas it has fewer than the part was told.
	MissingReplicas map[string]int `json:"missing_replicas,omitempty"`
	// Listen is the address of a gateway's port.
	Listen string `json:"listen,omitempty"`
	// Partitions is the number of partitions that the part knows of. Detectors and embedding
	// workers without it are of a release that knows none.
	Partitions int `json:"partitions,omitempty"`
	// Embedder names what an embedding worker makes vectors with.
	Embedder string `json:"embedder,omitempty"`
	// Bundle describes the policies in force at a gateway.
	Bundle *Bundle `json:"bundle,omitempty"`
	// Traffic counts a gateway's requests of the last minute; nil if none ever came.
	Traffic *Traffic `json:"traffic,omitempty"`
}

// TrafficMinute is the time that Traffic counts, in TrafficSteps equal steps.
const (
	TrafficMinute = time.Minute
	TrafficSteps  = 12
)

// Traffic counts the requests of the last minute.
type Traffic struct {
	// Last is when the newest request came, which may be longer ago.
	Last time.Time `json:"last"`
	// Requests are those of each step, the oldest first.
	Requests []int `json:"requests"`
	// Unchecked passed, or were refused, without a decision; Hinted and Stopped are what
	// policies and operators did.
	Unchecked int `json:"unchecked"`
	Hinted    int `json:"hinted"`
	Stopped   int `json:"stopped"`
}

// MaxPolicies bounds the policies that a Bundle lists.
const MaxPolicies = 200

// Bundle describes the policies in force at a gateway.
type Bundle struct {
	// Version is the name of the bundle, such as 7-3fa9c1d2.
	Version string `json:"version"`
	// Source is one of the sources below.
	Source       string   `json:"source"`
	KillSwitches int      `json:"kill_switches"`
	Policies     []Policy `json:"policies"`
	// Omitted is the number of policies over MaxPolicies.
	Omitted int `json:"omitted,omitempty"`
}

// The sources of bundles.
const (
	SourceFile    = "file"
	SourcePushed  = "pushed"
	SourceDefault = "default"
)

// Policy describes one policy.
type Policy struct {
	ID string `json:"id"`
	// Mode is enforce or shadow; FailureMode is open or closed.
	Mode        string     `json:"mode"`
	FailureMode string     `json:"failure_mode"`
	Detectors   []Detector `json:"detectors"`
	// Rules are the names of its rate, token and cost limits.
	Rules []string `json:"rules,omitempty"`
	// Selects is a request that the policy selects; nil if it selects all.
	Selects *Selects `json:"selects,omitempty"`
}

// Selects is a request that a policy selects, by the first value of each selector. Others
// are the selectors that ask for more than a request's headers, path and model.
type Selects struct {
	Path    string            `json:"path,omitempty"`
	Model   string            `json:"model,omitempty"`
	Tenant  string            `json:"tenant,omitempty"`
	Project string            `json:"project,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Others  []string          `json:"others,omitempty"`
}

// Detector describes a detector that is on.
type Detector struct {
	Name          string `json:"name"`
	WindowSeconds int    `json:"window_seconds,omitempty"`
	// Similarity is what the semantic detector's findings exceed.
	Similarity float64 `json:"similarity,omitempty"`
	Steps      []Step  `json:"steps"`
}

// Step is the action from a count on.
type Step struct {
	At     int    `json:"at"`
	Action string `json:"action"`
}
