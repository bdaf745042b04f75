// Package silence defines the silences of notifications: the records in
// schemas.BucketSilences. Operators write them; notifiers read them.
//
// It does not know how events are delivered.
package silence

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/match"
)

// Silence suppresses the messages about matching loops from Start until End. The record
// has a TTL, too, but End decides.
type Silence struct {
	ID       string         `json:"id"`
	Matchers match.Matchers `json:"matchers"`
	Author   string         `json:"author"`
	Comment  string         `json:"comment"`
	Start    time.Time      `json:"start"`
	End      time.Time      `json:"end"`
}

// maxComment bounds the comment, in bytes.
const maxComment = 1000

// Validate returns every fault of a silence.
func (s *Silence) Validate() error {
	var faults []error
	if len(s.Matchers) == 0 {
		faults = append(faults, errors.New("matchers are missing: name at least one, such as tenant=acme; loop=* silences everything"))
	}
	for _, fault := range s.Matchers.Faults() {
		faults = append(faults, errors.New(fault))
	}
	if strings.TrimSpace(s.Author) == "" {
		faults = append(faults, errors.New("author is missing"))
	}
	if len(s.Comment) > maxComment {
		faults = append(faults, fmt.Errorf("comment has %d bytes, at most %d are allowed", len(s.Comment), maxComment))
	}
	if !s.End.After(s.Start) {
		faults = append(faults, errors.New("end must be after start"))
	}
	return errors.Join(faults...)
}

// Active reports whether the silence is in force.
func (s *Silence) Active(now time.Time) bool { return !now.Before(s.Start) && now.Before(s.End) }

// Until returns the latest end of the silences that suppress an event now; zero if none
// does.
func Until(silences []Silence, e *event.Event, now time.Time) (until time.Time) {
	for i := range silences {
		if s := &silences[i]; s.Active(now) && s.End.After(until) && s.Matchers.Match(e) {
			until = s.End
		}
	}
	return until
}
