//go:build !cgo

package embed_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/realparts"
)

func TestWithoutCgoONNXIsAClearErrorAndAutoFallsBack(t *testing.T) {
	t.Parallel()
	library := filepath.Join(t.TempDir(), "libonnxruntime.so")
	if err := os.WriteFile(library, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := embed.Config{Kind: embed.KindONNX, Model: realparts.TinyModel(t), Runtime: library, Limits: embed.DefaultLimits()}
	log := slog.New(slog.DiscardHandler)
	if _, err := embed.Open(t.Context(), c, log); !errors.Is(err, embed.ErrUnavailable) || !strings.Contains(err.Error(), "cgo") {
		t.Errorf("got %v, want an error that names cgo", err)
	}
	c.Kind = embed.KindAuto
	if e, err := embed.Open(t.Context(), c, log); err != nil || e.Name() != "lexical-1" {
		t.Errorf("auto: %v, %v", e, err)
	}
}
