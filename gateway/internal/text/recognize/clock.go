package recognize

import (
	"bytes"
	"time"
)

const (
	// nowWithin is the maximum difference between a clock and the present: a prompt takes a
	// moment to be sent, and a clock without seconds is up to a minute slow.
	nowWithin = 90 * time.Second
	// halfDay and zoneStep make times of day comparable if their zone, or AM or PM, is not
	// known. Zones differ by multiples of a quarter of an hour.
	halfDay, zoneStep = 12 * time.Hour, 15 * time.Minute
)

// AppendClockless appends s as [AppendText] does, with a zero byte and the zone in place of
// each time of day that is the present one, and so says when the text was written. Other
// times, which may tell the items of a batch apart, stay, and so do dates.
func AppendClockless(dst, s []byte, now time.Time) []byte {
	f := folder{dst: dst, start: len(dst)}
	clockScanner.split(bytes.TrimSpace(s), func(part []byte, stamp bool) {
		if stamp {
			if at, said, ok := timeOfDay(part); ok {
				if zone, ok := zoneOf(said, now); ok {
					f.fold(part[:at])
					f.dst = append(f.dst, 0, 'A'+zone)
					return
				}
			}
		}
		f.fold(part)
	})
	return f.end()
}

// zoneOf returns the number of zone steps between a time of day and the present. ok is
// false if it is the present time in no zone. A Unix time has no zone.
func zoneOf(said time.Duration, now time.Time) (zone byte, ok bool) {
	present := time.Duration(now.Unix()) * time.Second
	if said > 2*halfDay {
		return 0, (present - said).Abs() <= nowWithin
	}
	ahead := ((present-said+nowWithin)%halfDay + halfDay) % halfDay
	return byte(ahead / zoneStep), ahead%zoneStep <= 2*nowWithin
}

// timeOfDay returns the index of the time of day in a timestamp that a scanner found, and
// its value: the time since midnight, or since 1970 for a Unix time.
func timeOfDay(stamp []byte) (at int, since time.Duration, ok bool) {
	for i := 0; i < len(stamp); i = skipDigits(stamp, i) + 1 {
		k := skipDigits(stamp, i)
		switch {
		case k-i >= 10:
			return i, seconds(stamp[i : i+10]), true
		case k-i == 8 && i+15 <= len(stamp) && stamp[k]|0x20 == 't':
			c := stamp[k+1:]
			return k + 1, seconds(c[:2], c[2:4], c[4:6]), true
		}
		if end, _ := clockAt(stamp, i); end > 0 {
			sec := []byte("0")
			if end >= k+6 && stamp[k+3] == ':' {
				sec = stamp[k+4 : k+6]
			}
			return i, seconds(stamp[i:k], stamp[k+1:k+3], sec), true
		}
	}
	return 0, 0, false
}

// seconds returns the duration of hours, minutes and seconds, of minutes and seconds, or
// of seconds, in decimal digits.
func seconds(numbers ...[]byte) time.Duration {
	total := 0
	for _, number := range numbers {
		n := 0
		for _, c := range number {
			n = 10*n + int(c-'0')
		}
		total = 60*total + n
	}
	return time.Duration(total) * time.Second
}
