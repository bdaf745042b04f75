package recognize_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

// clockless returns a text without its clocks, as it is sent at a time.
func clockless(text string, now time.Time) []byte {
	return recognize.AppendClockless(nil, []byte(text), now)
}

func TestAClockThatSaysNowIsLeftOut(t *testing.T) {
	t.Parallel()
	kathmandu := time.FixedZone("", 5*3600+45*60)
	for _, layout := range []string{
		time.RFC3339, time.RFC3339Nano, time.RFC1123, time.ANSIC, time.Stamp, "2006-01-02 15:04:05", "20060102T150405Z", "15:04", "3:04 PM",
		"02/Jan/2006:15:04:05 -0700", "January 2, 2006 at 3:04 PM",
	} {
		for _, zone := range []*time.Location{time.UTC, kathmandu} {
			now := time.Date(2026, 5, 22, 10, 58, 7, 5e8, zone)
			said := func(sent time.Time) []byte {
				return clockless("It is "+sent.Format(layout)+" now.", sent.Add(time.Second))
			}
			if a, b := said(now), said(now.Add(3*time.Minute)); !bytes.Equal(a, b) || bytes.IndexByte(a, 0) < 0 {
				t.Errorf("%s in %v: %q and %q", layout, zone, a, b)
			}
			if a := clockless("It is "+now.Format(layout)+" now.", now.Add(5*time.Minute)); bytes.IndexByte(a, 0) >= 0 {
				t.Errorf("%s in %v: another time is left out: %q", layout, zone, a)
			}
		}
	}
}

func TestAUnixTimeThatSaysNowIsLeftOut(t *testing.T) {
	t.Parallel()
	now := time.Unix(1779460200, 0)
	for text, left := range map[string]bool{
		"at 1779460195": true, "at 1779460195123": true, "at 1779460195.5": true, "at 1779459300": false, "at 1779373800": false,
	} {
		if got := bytes.IndexByte(clockless(text, now), 0) >= 0; got != left {
			t.Errorf("%q is left out: %v", text, got)
		}
	}
}

func TestTimesThatATextIsAboutStay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 22, 14, 5, 0, 0, time.UTC)
	for _, format := range []string{"Summarize 2026-05-%02dT14:05:00Z.", "It is 14:05:00. What happened on the %02dth at 03:12:00?"} {
		if a, b := clockless(fmt.Sprintf(format, 21), now), clockless(fmt.Sprintf(format, 22), now); bytes.Equal(a, b) {
			t.Errorf("%q is the same for two days: %q", format, a)
		}
	}
	seen := make(map[string]int)
	for i := range 60 {
		seen[string(clockless(fmt.Sprintf("At 14:%02d:05", i), now))]++
	}
	for text, n := range seen {
		if n > 4 {
			t.Errorf("%d items of a batch are the same: %q", n, text)
		}
	}
}
