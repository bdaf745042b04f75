package bytetime

import (
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostHostile bounds the ratio of the times per byte of hostile and honest inputs,
	// mostLarge that of large and small inputs.
	mostHostile, mostLarge = 25, 4
	// fast is the time per byte, in nanoseconds, that a hostile input may always take.
	fast = 40
	// tries bounds the repetitions of a measurement that is too slow: on a busy machine, page
	// faults and cache misses count too.
	tries = 10
)

// Sample returns an input of about size bytes.
type Sample func(size int) []byte

// Reader reads an input, and returns the number of bytes to divide the time by.
type Reader func(input []byte) (bytes int)

// Check fails the test if the time per byte of a hostile sample is much longer than that of
// an honest sample, or that of a large sample much longer than that of a small one. The
// slowest sample of each kind is also measured large.
func Check(t *testing.T, read Reader, honest, hostile map[string]Sample) {
	t.Helper()
	usual, name := slowest(t, read, honest, math.Inf(1))
	grows(t, name, read, honest[name], usual)
	most := max(mostHostile*usual, fast)
	got, name := slowest(t, read, hostile, most)
	if got > most {
		t.Errorf("%s: %.1f ns for each byte, an honest input at most %.1f", name, got, usual)
	}
	grows(t, name, read, hostile[name], got)
}

// slowest returns the largest time per byte and its sample. Measurements over most are
// repeated.
func slowest(t *testing.T, read Reader, samples map[string]Sample, most float64) (longest float64, name string) {
	t.Helper()
	for one, s := range samples {
		got := perByte(t, read, s(small))
		for n := 1; n < tries && got > most; n++ {
			got = min(got, perByte(t, read, s(small)))
		}
		if got > longest {
			longest, name = got, one
		}
	}
	return longest, name
}

// grows fails the test if a large sample takes much longer per byte than a small one.
func grows(t *testing.T, name string, read Reader, s Sample, before float64) {
	t.Helper()
	got := perByte(t, read, s(large))
	for n := 1; n < tries && got > mostLarge*before; n++ {
		got = min(got, perByte(t, read, s(large)))
	}
	t.Logf("%s: %.1f ns for each byte of a small input, %.1f of a large one", name, before, got)
	if got > mostLarge*before {
		t.Errorf("%s: %.1f ns for each byte of a small input, %.1f of a large one", name, before, got)
	}
}

// perByte returns the nanoseconds that a reader takes for each byte.
func perByte(t *testing.T, read Reader, input []byte) float64 {
	t.Helper()
	began := worked(t)
	n := read(input)
	return float64(worked(t)-began) / float64(max(n, 1))
}

// worked returns the processor time of this process.
func worked(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}

// Repeated returns samples that each repeat a text between a beginning and an end.
func Repeated(before, after string, units map[string]string) map[string]Sample {
	out := map[string]Sample{}
	for name, unit := range units {
		out[name] = func(size int) []byte {
			b := make([]byte, 0, len(before)+size+len(unit)+len(after))
			b = append(b, before...)
			for len(b) < len(before)+size {
				b = append(b, unit...)
			}
			return append(b, after...)
		}
	}
	return out
}
