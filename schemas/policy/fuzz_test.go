package policy_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/policy"
)

// FuzzParse: no input makes Parse panic; what it refuses it refuses with
// faults; what it accepts reads the same once written out again.
func FuzzParse(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}
	for _, text := range []string{
		"&a [*a]", "? {a: b}\n: c", "bundle_version: 1e999", "a: !!binary x\n", "<<: [{a: 1}, {a: 2}]", "%YAML 1.1\n---\n{}",
		"{\"bundle_version\": 1, \"policies\": [], \"\\ud800\": 0}", "bundle_version: 0x10\npolicies: []", "\xff\xfe",
		onePolicy("{selector: {headers: {'': x}}, hint: {text: \"\\0\"}}"),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := policy.Parse(data)
		tolerant, tolerantErr := policy.ParseTolerant(data)
		var faults *policy.Faults
		if err != nil {
			if !errors.As(err, &faults) || len(faults.List) == 0 {
				t.Fatalf("refused without faults: %v", err)
			}
			if tolerantErr == nil {
				mustHold(t, tolerant)
			}
			return
		}
		if tolerantErr != nil {
			t.Fatalf("only Parse accepts: %v", tolerantErr)
		}
		mustHold(t, b)
	})
}

// Whatever a field is replaced by, the outcome is faults or a bundle that
// holds.
func TestAnyFieldMayHoldAnything(t *testing.T) {
	t.Parallel()
	full, err := json.Marshal(mustParse(t, string(samples(t)["full.yaml"])))
	if err != nil {
		t.Fatal(err)
	}
	oddities := []string{
		`null`, `true`, `false`, `0`, `1`, `-1`, `2.5`, `1e300`, `9223372036854775807`, `""`, `"x"`, `"1"`, `"/x"`, `"caller"`,
		`"2026-01-01T00:00:00Z"`, `[]`, `[null]`, `["x"]`, `[1, 2]`, `{}`, `{"x": 1}`, `{"enabled": true}`,
	}
	rapid.Check(t, func(rt *rapid.T) {
		var tree any
		if err := json.Unmarshal(full, &tree); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 3).Draw(rt, "changes") {
			mutate(rt, tree, rapid.SampledFrom(oddities))
		}
		text, err := json.Marshal(tree)
		if err != nil {
			rt.Fatal(err)
		}
		b, err := policy.Parse(text)
		var faults *policy.Faults
		switch {
		case err == nil:
			mustHold(rt, b)
		case !errors.As(err, &faults):
			rt.Fatalf("refused without faults: %v", err)
		}
	})
}

// mutate replaces or removes one value somewhere in a tree.
func mutate(t *rapid.T, tree any, odd *rapid.Generator[string]) {
	for {
		var next any
		var put func(any)
		switch node := tree.(type) {
		case map[string]any:
			if len(node) == 0 {
				return
			}
			key := rapid.SampledFrom(slices.Sorted(maps.Keys(node))).Draw(t, "key")
			next, put = node[key], func(v any) { node[key] = v }
			if rapid.IntRange(0, 19).Draw(t, "remove") == 0 {
				delete(node, key)
				return
			}
		case []any:
			if len(node) == 0 {
				return
			}
			i := rapid.IntRange(0, len(node)-1).Draw(t, "index")
			next, put = node[i], func(v any) { node[i] = v }
		}
		_, isMap := next.(map[string]any)
		_, isList := next.([]any)
		if !isMap && !isList || rapid.IntRange(0, 9).Draw(t, "here") == 0 {
			var value any
			if err := json.Unmarshal([]byte(odd.Draw(t, "value")), &value); err != nil {
				t.Fatal(err)
			}
			put(value)
			return
		}
		tree = next
	}
}

func mustHold(t rapid.TB, b *policy.Bundle) {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatalf("accepted, but can't be written: %v", err)
	}
	again, err := policy.Parse(text)
	if err != nil {
		t.Fatalf("accepted, but not once written: %v\n%s", err, text)
	}
	if diff := cmp.Diff(b, again, sameBundle); diff != "" {
		t.Fatalf("reads differently once written: %s", diff)
	}
}
