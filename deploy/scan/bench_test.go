package scan

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

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
