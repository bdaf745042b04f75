package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/schemas/policy"
)

func TestACommentedBundleIsTheSameBundle(t *testing.T) {
	t.Parallel()
	texts := []string{}
	for _, name := range policy.Examples {
		text, known := policy.Example(name)
		if !known {
			t.Fatalf("no example %s", name)
		}
		texts = append(texts, string(text))
	}
	b, err := policy.Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	bundles := []*policy.Bundle{b}
	for _, text := range texts {
		b := mustParse(t, text)
		if w := b.Warnings(); len(w) > 0 {
			t.Errorf("%s\nwarns of %v", text, w)
		}
		bundles = append(bundles, b)
	}
	for _, b := range bundles {
		text, err := b.Commented()
		if err != nil {
			t.Fatal(err)
		}
		again := mustParse(t, string(text))
		want, wantErr := json.Marshal(b)
		got, gotErr := json.Marshal(again)
		if diff := cmp.Diff(string(want), string(got)); diff != "" || wantErr != nil || gotErr != nil {
			t.Errorf("%s\n(-want +got):\n%s, %v, %v", text, diff, wantErr, gotErr)
		}
		for _, comment := range []string{"# Must increase with each change", "# Unique name, used in events"} {
			if !strings.Contains(string(text), comment) {
				t.Errorf("no comment %q in\n%s", comment, text)
			}
		}
	}
	if _, known := policy.Example("none"); known {
		t.Error("an unknown example is known")
	}
}
