package terminal

import (
	"fmt"
	"time"
)

const day = 24 * time.Hour

// Age returns a duration in its largest unit: "12 s", "3 min", "2 h" or "4 d".
func Age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	default:
		return fmt.Sprintf("%d d", d/day)
	}
}

// Ago returns the age of a time: "12 s ago", or "now" for less than a second.
func Ago(t, now time.Time) string {
	if age := Age(now.Sub(t)); age != "now" {
		return age + " ago"
	}
	return "now"
}

// Moment formats a time in the time zone of now: the time of day if it is today, else with
// the date, and with the year if it is not this year.
func Moment(t, now time.Time) string {
	t = t.In(now.Location())
	year, month, date := now.Date()
	switch y, m, d := t.Date(); {
	case y == year && m == month && d == date:
		return t.Format(time.TimeOnly)
	case y == year:
		return t.Format("2 Jan 15:04")
	default:
		return t.Format("2006-01-02 15:04")
	}
}
