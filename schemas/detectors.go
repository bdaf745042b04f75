package schemas

import "time"

// Every detector publishes its name on SubjectBeat every BeatEvery while it gets requests, and
// less than three times more rarely while it gets none. Besides the queue group's subject, each
// takes checks on a subject of its own, so that gateways can avoid a detector that is frozen.
const (
	SubjectBeat = "loop.beat"
	BeatEvery   = 100 * time.Millisecond
)

// maxDetectorName bounds the names of detectors, in bytes.
const maxDetectorName = 64

// DetectorSubject returns the subject on which a detector takes checks.
func DetectorSubject(name string) string { return SubjectCheck + "." + name }

// OutcomeSubject returns the subject on which a detector takes outcomes.
func OutcomeSubject(name string) string { return SubjectOutcome + "." + name }

// IsDetectorName reports whether a text can be a detector's name.
func IsDetectorName(name string) bool {
	for i := range len(name) {
		if !isTokenByte(name[i]) {
			return false
		}
	}
	return name != "" && len(name) <= maxDetectorName
}
