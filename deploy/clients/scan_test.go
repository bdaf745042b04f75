package clients

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/scan"
	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/embedworker"
)

// A scan finds the loop in the files that real agents keep, where nobody says where they are.
func TestScanFindsTheLoopInWhatAgentsKeep(t *testing.T) {
	t.Parallel()
	for i := range all {
		if c := &all[i]; c.scanned {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.folder(t) // or skip
				scanAfter(t, c)
			})
		}
	}
}

// scanAfter runs a client past Unloop, and scans its home folder.
func scanAfter(t *testing.T, c *client) {
	t.Helper()
	var calls atomic.Int64
	upstream := httptest.NewServer(scripted.New(func(r scripted.Request) scripted.Reply {
		reply := loops(r)
		if len(reply.ToolCalls) > 0 && calls.Add(1) > 8 {
			return scripted.Text("I give up.")
		}
		return reply
	}))
	t.Cleanup(upstream.Close)
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args, environ := c.command(t, c, home, upstream.URL)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = home
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8"}, environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := scan.Home(home, func(name string) string { return map[string]string{"CODEX_HOME": home}[name] }, time.Time{})
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	cfg := scan.Config{Embedworker: embedworker.DefaultConfig()}
	cfg.Embedworker.Embedder = "lexical"
	r, err := scan.Files(t.Context(), files, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Looped != 1 || r.Stopped != 1 || r.Unreadable > 0 || r.Spent.Estimated > 0 || !strings.Contains(r.Loops[0].What(), "echo again") {
		t.Errorf("report %+v", r)
	}
}
