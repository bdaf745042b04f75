package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// A backup that a user interrupts is an error, and leaves nothing behind.
func TestAnInterruptedBackupIsAnError(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	var out, errOut bytes.Buffer
	code := run(interrupted, []string{"backup", filepath.Join(dir, "backup.zip"), "--nats", server.URL()}, nil, &out, &errOut)
	if code != 1 || !strings.Contains(errOut.String(), "interrupted before the end") {
		t.Errorf("exit code %d, %s", code, errOut.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if code := run(t.Context(), []string{"backup", filepath.Join(dir, "backup.zip"), "--nats", server.URL()}, nil, &out, &errOut); code != 0 {
		t.Errorf("a whole one: exit code %d, %s", code, errOut.String())
	}
	errOut.Reset()
	code = run(interrupted, []string{"restore", filepath.Join(dir, "backup.zip"), "--nats", server.URL(), "--force"}, nil, &out, &errOut)
	if code != 1 || !strings.Contains(errOut.String(), "interrupted before the end") {
		t.Errorf("a restore: exit code %d, %s", code, errOut.String())
	}
}
