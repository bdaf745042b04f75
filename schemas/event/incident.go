package event

import "time"

// Incident is the record of an open incident in schemas.BucketIncidents: the data of its
// events, and internal state. The record expires when the incident's window has passed
// without a finding.
type Incident struct {
	Data
	Tenant    string `json:"tenant"`
	Project   string `json:"project"`
	RequestID string `json:"request_id"`
	// Traceparent is Event.Traceparent.
	Traceparent string `json:"traceparent,omitempty"`
	// Announced reports that loop.detected is stored.
	Announced bool `json:"announced"`
	// Counters are the states that a release resets. There may be other counters of the
	// incident's conversation in schemas.BucketCounters.
	Counters []Counter `json:"counters"`
	// Ends is when the incident ends without a further finding.
	Ends time.Time `json:"ends,omitzero"`
	// Updates are ids of the newest writes, so that none is applied twice.
	Updates []string `json:"updates,omitempty"`
	// FoundAt are the times of the newest of each of the Findings, in Unix milliseconds.
	FoundAt []int64 `json:"found_at,omitempty"`
	// Reported is the incident's size at its newest event.
	Reported Reported `json:"reported,omitzero"`
	// Over is the reason for which the incident has ended; empty while it is open. The
	// record is removed when loop.resolved is stored.
	Over string `json:"over,omitempty"`
	// Former is the incident before this one, until its loop.resolved is stored.
	Former *Incident `json:"former,omitempty"`
}

// Reported is the size of an incident at the time of an event.
type Reported struct {
	Requests int       `json:"requests"`
	At       time.Time `json:"at"`
	// Number counts the loop.ongoing events.
	Number int `json:"number,omitempty"`
}

// Counter names a counter of the incident's policy and mode; see
// schemas.CounterKey.
type Counter struct {
	Detector    string `json:"detector"`
	Fingerprint string `json:"fingerprint"`
	// KeptSeconds is how long the counter's state is kept after its last use; 0 if it is
	// not known.
	KeptSeconds int `json:"kept_seconds,omitempty"`
}

// ModeShadow and ModeEnforce are the values of Data.Mode.
const (
	ModeShadow  = "shadow"
	ModeEnforce = "enforce"
)
