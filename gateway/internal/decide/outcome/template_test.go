package outcome

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Whatever a finding says, a refusal from a template is byte for byte the one
// that its format would write.
func TestTemplatesWriteWhatTheirFormatWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "default", "a \"quoted\" <name>", "3987654", "4123456789", "policy 6"})
		wait := rapid.IntRange(0, 1<<22)
		f := &checkpb.Finding{
			Policy: text.Draw(t, "policy"), Detector: text.Draw(t, "detector"), LoopId: text.Draw(t, "loop"),
			Message: text.Draw(t, "message"), Fingerprint: []byte(text.Draw(t, "fingerprint")), Action: checkpb.Action_ACTION_REJECT,
			HitCount: rapid.Uint32().Draw(t, "count"), WindowSeconds: 60, CooldownSeconds: 30, BlockedMs: rapid.Uint32Min(1).Draw(t, "left"),
		}
		for _, p := range formats.All {
			tmpl := newTemplate(p, Look{}, f, wait.Draw(t, "wait"), 429)
			f.HitCount, f.BlockedMs = rapid.Uint32().Draw(t, "later count"), rapid.Uint32Min(1).Draw(t, "later left")
			later := wait.Draw(t, "later wait")
			if !tmpl.fits(f, later) {
				continue
			}
			want := p.Refusal(nowhere.refusal(f, later, 429))
			if got := tmpl.render(nil, f, later); !bytes.Equal(got, want) {
				t.Fatalf("%s: template wrote (-format +template):\n%s", p.Name(), cmp.Diff(string(want), string(got)))
			}
		}
	})
}

func TestUsualRefusalsHaveATemplate(t *testing.T) {
	t.Parallel()
	f := &checkpb.Finding{Policy: "default", Detector: "prompt", Fingerprint: []byte{1, 2}, LoopId: "x", HitCount: 6, WindowSeconds: 60, BlockedMs: 30_000, Action: checkpb.Action_ACTION_REJECT}
	for _, p := range formats.All {
		tmpl := newTemplate(p, Look{}, f, 30, 429)
		if !tmpl.fits(f, 29) || tmpl.fits(f, 0) {
			t.Errorf("%s: no template", p.Name())
			continue
		}
		if body := tmpl.render(nil, f, 29); !json.Valid(body) || !strings.Contains(string(body), strconv.Itoa(6)) {
			t.Errorf("%s: %s", p.Name(), body)
		}
	}
	if other := (&checkpb.Finding{Policy: "other", BlockedMs: 1}); newTemplate(formats.All[0], nowhere, f, 1, 429).fits(other, 1) {
		t.Error("another policy's finding fits")
	}
}
