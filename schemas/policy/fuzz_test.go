package policy_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/schemas/policy"
)

// FuzzParse: no input makes Parse panic; what it refuses it refuses with
// faults; what it accepts compiles, matches, and reads the same once written
// out again.
func FuzzParse(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
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

func mustHold(t *testing.T, b *policy.Bundle) {
	t.Helper()
	set, err := b.Compile()
	if err != nil {
		t.Fatalf("accepted, but does not compile: %v", err)
	}
	set.Match(&policy.Request{Method: "POST", Path: "/v1/messages", Model: "m", Header: func(string) string { return "h" }})
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
