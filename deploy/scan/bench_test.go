package scan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mixed writes a hundred sessions, as a machine of a developer has them: 85 of 8 failing rounds
// and 25 KB, 14 of 60 calls and 310 KB, and one of 800 calls and 8 MB.
func mixed(b *testing.B, folder string) (size int64) {
	b.Helper()
	for i := range 100 {
		id := fmt.Sprintf("session%02d", i)
		text := strings.NewReplacer("1 failed: cart", "1 failed: cart "+strings.Repeat("at line of a trace, ", 100), "msg_", id, "0d1c", id).Replace(strings.Join(claudeLines(), "\n"))
		switch {
		case i == 0:
			text = longSession(id, 800, 9000)
		case i < 15:
			text = longSession(id, 60, 4500)
		}
		if err := os.WriteFile(filepath.Join(folder, id+".jsonl"), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		size += int64(len(text))
	}
	return size
}

// BenchmarkFiles scans a hundred sessions of mixed sizes, on as many processors as -cpu says. It
// reports the processor time of 10,000 such sessions, and the most memory that the process had.
func BenchmarkFiles(b *testing.B) {
	folder := b.TempDir()
	b.SetBytes(mixed(b, folder))
	files, err := At(folder, time.Time{})
	if err != nil || len(files) != 100 {
		b.Fatalf("%d files, %v", len(files), err)
	}
	before := used(b)
	for b.Loop() {
		if r, err := Files(b.Context(), files, config()); err != nil || r.Looped != 85 {
			b.Fatal(r, err)
		}
	}
	after := used(b)
	spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(100*spent.Seconds()/float64(b.N), "cpu-s/10000sessions")
	b.ReportMetric(float64(after.Maxrss)/1024, "MB-peak")
}

func used(b *testing.B) (u syscall.Rusage) {
	b.Helper()
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u
}

// BenchmarkLongSession scans one session, each of whose requests has all that was said before.
func BenchmarkLongSession(b *testing.B) {
	for _, requests := range []int{200, 800, 3200} {
		b.Run(fmt.Sprint(requests), func(b *testing.B) {
			text := longSession("long", requests, 9000)
			path := filepath.Join(b.TempDir(), "long.jsonl")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
			files, err := At(path, time.Time{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if r, err := Files(b.Context(), files, config()); err != nil || r.Spent.Requests != requests {
					b.Fatal(r, err)
				}
			}
		})
	}
}
