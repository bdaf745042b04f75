package board

import (
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// Point is the state of a loop at a time.
type Point struct {
	At       time.Time   `json:"at"`
	HitCount int         `json:"hit_count"`
	Saved    event.Saved `json:"saved"`
	// Action is the action on the loop at that time.
	Action string `json:"action"`
}

// maxCourse bounds the points of a loop. When it is reached, every other point is dropped.
const maxCourse = 32

func (l *Loop) point() Point { return Point{l.LastSeen, l.HitCount, l.Saved, l.Action} }

// after returns the course with the point of a later state. It does not modify the loop's
// course.
func (l *Loop) after(next *Loop) []Point {
	p := next.point()
	course := l.course
	if n := len(course); n > 0 && !p.At.After(course[n-1].At) {
		return course
	}
	if len(course) >= maxCourse {
		thin := make([]Point, 0, maxCourse)
		for i := 0; i < len(course); i += 2 {
			thin = append(thin, course[i])
		}
		course = thin
	}
	return append(slices.Clip(course), p)
}

// Course returns the states of the loop, oldest first; the present one is the last.
func (l *Loop) Course() []Point { return l.after(l) }
