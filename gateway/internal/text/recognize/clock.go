package recognize

import (
	"bytes"
	"time"
)

const (
	// nowWithin is how far a clock may be from the present: a prompt takes a moment to be
	// sent, and a clock without seconds is up to a minute behind.
	nowWithin = 90 * time.Second
	// halfDay and zoneStep make a time of day comparable where its zone, and whether it is
	// before noon, are not known: zones differ by quarters of an hour.
	halfDay, zoneStep = 12 * time.Hour, 15 * time.Minute
)

// AppendClockless appends s as [AppendText] does, with a zero byte and the zone for each
// time of day that is the present one. Only these say when the text was written. All other
// times, such as those that the items of a batch are about, stay, and so do dates.
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

// zoneOf returns how many steps of zones the present is ahead of a time of day. ok is false
// if that is the present one in no zone. A Unix time has none.
func zoneOf(said time.Duration, now time.Time) (zone byte, ok bool) {
	present := time.Duration(now.Unix()) * time.Second
	if said > 2*halfDay {
		return 0, (present - said).Abs() <= nowWithin
	}
	ahead := ((present-said+nowWithin)%halfDay + halfDay) % halfDay
	return byte(ahead / zoneStep), ahead%zoneStep <= 2*nowWithin
}

// timeOfDay returns where a timestamp, as a scanner finds it, has its time of day, and that
// as the time since midnight or, in a Unix time, since 1970.
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

// seconds returns the time that some numbers say: each is worth sixty of the next, and the
// last is in seconds.
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
