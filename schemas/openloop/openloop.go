// Package openloop defines the record of an open loop, which detectors store in
// schemas.BucketIncidents and the command line and the dashboard read. It does not know how a
// loop is found or what is done about it.
package openloop

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/storepb"
)

// Record is an open incident: the data of its events, and internal state. It expires when the
// incident's window has passed without a finding. It is stored as a storepb.Loop; its JSON is
// for people.
type Record struct {
	event.Data
	Tenant    string `json:"tenant"`
	Project   string `json:"project"`
	RequestID string `json:"request_id"`
	// Traceparent is event.Event's.
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
	Former *Record `json:"former,omitempty"`
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

// Parse reads what Append wrote. Empty data is the zero Record.
func (r *Record) Parse(stored []byte) error {
	var m storepb.Loop
	if err := proto.Unmarshal(stored, &m); err != nil {
		return err
	}
	return r.take(&m)
}

func (r *Record) take(m *storepb.Loop) error {
	*r = Record{
		Tenant: m.GetTenant(), Project: m.GetProject(), RequestID: m.GetRequestId(), Traceparent: m.GetTraceparent(), Announced: m.GetAnnounced(),
		Ends: timeOf(m.GetEnds()), Updates: m.GetUpdates(), FoundAt: m.GetFoundAt(), Over: m.GetOver(),
		Reported: Reported{int(m.GetReported().GetRequests()), timeOf(m.GetReported().GetAt()), int(m.GetReported().GetNumber())},
	}
	for _, c := range m.GetCounters() {
		r.Counters = append(r.Counters, Counter{c.GetDetector(), c.GetFingerprint(), int(c.GetKeptSeconds())})
	}
	if m.GetFormer() != nil {
		r.Former = new(Record)
		if err := r.Former.take(m.GetFormer()); err != nil {
			return err
		}
	}
	if len(m.GetData()) == 0 {
		return nil
	}
	return json.Unmarshal(m.GetData(), &r.Data)
}

// Append appends the record to b. It appends nothing for the zero Record, or for one that can't
// be encoded because of a time such as the year 10000.
func (r *Record) Append(b []byte) []byte {
	m := r.message()
	if m == nil {
		return b
	}
	return storepb.Append(b, m)
}

// message returns the stored form; nil if there is none.
func (r *Record) message() *storepb.Loop {
	if r == nil || r.LoopID == "" {
		return nil
	}
	data, err := json.Marshal(&r.Data)
	if err != nil {
		return nil
	}
	m := &storepb.Loop{
		Data: data, Tenant: r.Tenant, Project: r.Project, RequestId: r.RequestID, Traceparent: r.Traceparent, Announced: r.Announced,
		Ends: nanos(r.Ends), Updates: r.Updates, FoundAt: r.FoundAt, Over: r.Over, Former: r.Former.message(),
		Reported: &storepb.LoopReported{Requests: int64(r.Reported.Requests), At: nanos(r.Reported.At), Number: int64(r.Reported.Number)},
	}
	for _, c := range r.Counters {
		m.Counters = append(m.Counters, &storepb.LoopCounter{Detector: c.Detector, Fingerprint: c.Fingerprint, KeptSeconds: int64(c.KeptSeconds)})
	}
	return m
}

// nanos returns a time as Unix nanoseconds, 0 for none; timeOf returns it again, in UTC.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}
