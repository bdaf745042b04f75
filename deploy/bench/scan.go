package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
)

// scannedBytes is the total size of the sessions of a scan.
const scannedBytes = 24 << 20

// scans measures the processor time of `unloop scan` over sessions of Claude Code: short ones,
// typical ones, and a single one of the same total size.
func (b *bench) scans(ctx context.Context) error {
	table := &measure.Table{Head: []string{"binary", "sessions", "KB each", "MB/s a core", "sessions/s a core"}}
	for _, kb := range []int{25, 150, scannedBytes >> 10} {
		folder := filepath.Join(b.dir, fmt.Sprint("sessions-", kb))
		sessions, size, err := writeSessions(folder, kb<<10)
		if err != nil {
			return fmt.Errorf("write sessions: %w", err)
		}
		for _, r := range b.rivals() {
			var all []time.Duration
			for range b.plan.Rounds {
				took, err := scan(ctx, r.binary, folder)
				if err != nil {
					return err
				}
				all = append(all, took)
			}
			took, n := measure.Percentile(all, 50)/1000, float64(sessions)
			table.Add("unloop"+r.name, fmt.Sprint(sessions), fmt.Sprintf("%.0f", size/n/1e3), fmt.Sprintf("%.1f", size/1e6/took), fmt.Sprintf("%.1f", n/took))
		}
	}
	b.print(table, "unloop scan, sessions of Claude Code; each eighth ends in a loop")
	return nil
}

// scan scans a folder and returns the processor time.
func scan(ctx context.Context, binary, folder string) (time.Duration, error) {
	cmd := unloop{binary: binary}.command("scan", "--json", folder).command(ctx)
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("scan: %w", err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// writeSessions writes sessions of about size bytes, and returns their number and total bytes.
func writeSessions(folder string, size int) (n int, written float64, err error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return 0, 0, err
	}
	draw := rand.New(rand.NewPCG(1, uint64(size)))
	for ; written < scannedBytes; n++ {
		text := session(draw, fmt.Sprintf("%08d-7b1c-4f6e-9a55-3c2f6d8e1a00", n), size, n%8 == 0)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(n, ".jsonl")), []byte(text), 0o600); err != nil {
			return 0, 0, err
		}
		written += float64(len(text))
	}
	return n, written, nil
}

// mostResult is the largest result of a call in bytes, loopRounds the number of rounds of a loop.
const mostResult, loopRounds = 4000, 8

// session returns a session of at least size bytes as Claude Code stores it, where each result
// is twice in its line: an agent reads files and runs tests, and may end in a loop.
func session(draw *rand.Rand, id string, size int, loops bool) string {
	var out strings.Builder
	at, lines := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), 0
	line := func(kind, message string) {
		lines, at = lines+1, at.Add(time.Duration(1+draw.IntN(30))*time.Second)
		fmt.Fprintf(&out, `{"parentUuid":"%[1]s-%[2]d","isSidechain":false,"userType":"external","cwd":"/home/ada/shop","sessionId":%[3]q,"version":"2.0.31","gitBranch":"main","type":%[4]q,%[5]s,"uuid":"%[1]s-%[6]d","timestamp":%[7]q}`+"\n",
			id, lines-1, id, kind, message, lines, at.Format(time.RFC3339Nano))
	}
	round := func(n int, tool, input, result string) {
		for _, content := range []string{`{"type":"text","text":` + strconv.Quote(traffic.Words(draw, 80+draw.IntN(200))) + `}`, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%q,"input":%s}`, n, tool, input)} {
			line("assistant", fmt.Sprintf(`"message":{"id":"msg_%s_%d","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[%s],"stop_reason":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":90}}`, id, n, content, len(result)/4, out.Len()/8))
		}
		line("user", fmt.Sprintf(`"message":{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","content":%q,"is_error":false}]},"toolUseResult":{"stdout":%[2]q,"stderr":"","interrupted":false}`, n, result))
	}
	line("user", `"message":{"role":"user","content":"Make the tests pass, and say what was wrong."}`)
	n := 0
	for ; out.Len() < size; n++ {
		var result strings.Builder
		for most := draw.IntN(mostResult); result.Len() < most; {
			fmt.Fprintf(&result, "%s.go:%d: %s\n", traffic.Words(draw, 12), draw.IntN(900), traffic.Words(draw, 20+draw.IntN(60)))
		}
		round(n, "Read", fmt.Sprintf(`{"file_path":"/home/ada/shop/%s/%d.go"}`, traffic.Words(draw, 6), n), result.String())
	}
	for i := 0; loops && i < loopRounds; i++ {
		round(n+i, "Bash", `{"command":"npm test"}`, "1 failed: cart")
	}
	return out.String()
}
