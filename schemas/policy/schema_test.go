package policy_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/unloop/unloop/schemas/policy"
)

func compiledSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(policy.Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("bundle.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// instance is a bundle as a schema validator wants it.
func instance(t testing.TB, data []byte) any {
	t.Helper()
	if !json.Valid(data) {
		var v any
		if err := yaml.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		var err error
		if data, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSamplesSatisfyTheSchema(t *testing.T) {
	t.Parallel()
	schema := compiledSchema(t)
	for name, data := range samples(t) {
		if err := schema.Validate(instance(t, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMarshalledDefaultSatisfiesTheSchema(t *testing.T) {
	t.Parallel()
	b, err := policy.Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := compiledSchema(t).Validate(instance(t, data)); err != nil {
		t.Error(err)
	}
}

func TestSchemaRefusesWhatParseRefuses(t *testing.T) {
	t.Parallel()
	schema := compiledSchema(t)
	for _, text := range []string{
		"policies: []",
		"bundle_version: 0\npolicies: []",
		"bundle_version: 1\npolicies: []\nshiny: 1",
		"bundle_version: 1\npolicies: []\nglobal_shadow: maybe",
		"bundle_version: 1\npolicies: []\nexpires_at: tomorrow",
		"bundle_version: 1\npolicies: []\nkill_switches: [{scope_key: color, scope_value: a}]",
		"bundle_version: 1\npolicies: [{id: '', spec: {}}]",
		onePolicy("{mode: watch}"),
		onePolicy("{selector: {pathPrefix: v1}}"),
		onePolicy("{prompt: {max_hits: lots}}"),
		onePolicy("{prompt: {max_hit: 1}}"),
		onePolicy("{prompt: {enabled: 1}}"),
		onePolicy("{loop_detection: {enabled: true, window_seconds: 60}}"),
		onePolicy("{loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 1}}"),
		onePolicy("{loop_detection: {enabled: 'yes'}}"),
		onePolicy("{semantic: {threshold: 1.5}}"),
		onePolicy("{rules: [{name: a, limit_keys: [caller], algorithm: leaky, algorithm_config: {}}]}"),
		onePolicy("{rules: [{name: a, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {burst: 1, budget: 2}}]}"),
		onePolicy("{rules: [{name: a, limit_keys: [planet], algorithm: token_bucket, algorithm_config: {burst: 1, rps: 1}}]}"),
	} {
		if _, err := policy.Parse([]byte(text)); err == nil {
			t.Errorf("Parse accepts:\n%s", text)
		}
		if err := schema.Validate(instance(t, []byte(text))); err == nil {
			t.Errorf("the schema accepts:\n%s", text)
		}
	}
}
