package jsonrecord_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/detector/internal/jsonrecord"
)

type record struct {
	Always int64    `json:"always"`
	N      int64    `json:"n,omitempty"`
	F      float64  `json:"f,omitempty"`
	Text   string   `json:"text,omitempty"`
	Times  []int64  `json:"times,omitempty"`
	Texts  []string `json:"texts,omitempty"`
}

func (r *record) append(b []byte) []byte {
	b = jsonrecord.Number(append(b, '{'), "always", r.Always)
	b = jsonrecord.Int(b, "n", r.N)
	b = jsonrecord.Float(b, "f", r.F)
	b = jsonrecord.String(b, "text", r.Text)
	b = jsonrecord.Ints(b, "times", r.Times)
	return append(jsonrecord.Strings(b, "texts", r.Texts), '}')
}

func TestARecordReadsAsItWasWritten(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]record{
		"nothing":       {},
		"all":           {1, -2, 1.5e300, "c0ffee", []int64{1, 2, 3}, []string{"a", "b"}},
		"small numbers": {N: 1, F: 5e-324},
		"strange texts": {Text: "\x00\x07\x7f\u2028\"\\é\U0001f600</script>", Texts: []string{"", "\n\t", "\u0080"}},
	} {
		var got record
		if err := json.Unmarshal(want.append([]byte("before"))[len("before"):], &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	broken := record{Text: "a\xffb"}
	var got record
	if err := json.Unmarshal(broken.append(nil), &got); err != nil || got.Text != "a\ufffdb" {
		t.Errorf("bytes that are no UTF-8: %q, %v", got.Text, err)
	}
}
