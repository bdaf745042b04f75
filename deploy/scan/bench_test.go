package scan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkFiles scans sessions of 8 failing rounds each, with a recorded result of 2 KB, on as many
// processors as -cpu says. An operation is a session.
func BenchmarkFiles(b *testing.B) {
	folder := b.TempDir()
	text := strings.ReplaceAll(strings.Join(claudeLines(), "\n"), "1 failed: cart", "1 failed: cart "+strings.Repeat("at line of a trace, ", 100))
	var files []File
	for i := range min(b.N, 2000) {
		path := filepath.Join(folder, fmt.Sprintf("%d.jsonl", i))
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "msg_", fmt.Sprint("msg_", i, "_"))), 0o600); err != nil {
			b.Fatal(err)
		}
		files = append(files, File{Path: path, Size: int64(len(text))})
	}
	all, err := At(folder, Config{}.Since)
	if err != nil || len(all) != len(files) {
		b.Fatalf("%d files, %v", len(all), err)
	}
	b.SetBytes(int64(len(text)))
	b.ResetTimer()
	for done := 0; done < b.N; done += len(all) {
		if r, err := Files(b.Context(), all[:min(len(all), b.N-done)], config()); err != nil || r.Looped == 0 {
			b.Fatal(r, err)
		}
	}
}
