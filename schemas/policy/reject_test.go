package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/policy"
)

func TestRejectIsAStatusOrAWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]policy.RejectAnswer{
		"{}": "", "{reject: auto}": policy.RejectAuto, "{reject: synthetic}": policy.RejectSynthetic,
		"{reject: 429}": "429", `{reject: "403"}`: "403",
	} {
		b, err := policy.Parse([]byte(onePolicy(text)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := b.Policies[0].Spec.Reject; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		written, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := policy.Parse(written)
		if err != nil || again.Policies[0].Spec.Reject != want {
			t.Errorf("%s comes back from %s: %v", text, written, err)
		}
		if err := compiledSchema(t).Validate(instance(t, written)); err != nil {
			t.Errorf("%s: %v", written, err)
		}
	}
	for _, text := range []string{"{reject: never}", "{reject: 200}", "{reject: 700}", "{reject: [429]}", "{reject: true}", "{reject: 429.5}", "{reject: ''}"} {
		_, err := policy.Parse([]byte(onePolicy(text)))
		if err == nil || !strings.Contains(err.Error(), "policies[0].spec.reject: reject must be auto, synthetic, or the status of an error from 400 to 599, such as 429") {
			t.Errorf("%s: %v", text, err)
		}
		if err := compiledSchema(t).Validate(instance(t, []byte(onePolicy(text)))); err == nil {
			t.Errorf("the schema takes %s", text)
		}
	}
}

func TestRejectByAStatusThatClientsRetryIsWarnedOf(t *testing.T) {
	t.Parallel()
	for status, warned := range map[string]bool{"429": false, "400": false, "403": false, "422": false, "408": true, "503": true} {
		b, err := policy.Parse([]byte(onePolicy("{prompt: {}, reject: " + status + "}")))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(b.Warnings()) > 0; got != warned {
			t.Errorf("%s: warnings %v", status, b.Warnings())
		}
	}
}

func TestRejectOfABundleMadeInGoIsChecked(t *testing.T) {
	t.Parallel()
	spec := policy.DefaultSpec()
	spec.Reject = "sometimes"
	b := &policy.Bundle{BundleVersion: 1, Policies: []policy.Entry{{ID: "p", Spec: spec}}}
	if err := b.Validate(); err == nil || !strings.Contains(err.Error(), "reject must be auto") {
		t.Errorf("%v", err)
	}
}
