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
	// Action is the loop's action at that time.
	Action string `json:"action"`
}

// maxCourse bounds the points of a loop. Where there are more, every other one is left out.
const maxCourse = 32

func (l *Loop) point() Point { return Point{l.LastSeen, l.HitCount, l.Saved, l.Action} }

// after returns the course with what a later event of the loop says. It changes no course in
// place.
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

// Course returns how the loop grew, the oldest state first and the present one last.
func (l *Loop) Course() []Point { return l.after(l) }
