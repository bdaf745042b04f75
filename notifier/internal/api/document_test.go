package api

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/unloop/unloop/schemas/event"
)

// document is the description of the API, with what was compared with it.
type document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex
	seen     map[string]bool
}

// describe reads the description. Unlike for readers, no property may be unknown; a loop
// may have those of an event's data.
func describe(t *testing.T) *document {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(Document))
	if err != nil {
		t.Fatal(err)
	}
	loop := at(parsed, "components", "schemas", "Loop").(map[string]any)
	delete(loop, "additionalProperties")
	events, err := jsonschema.UnmarshalJSON(bytes.NewReader(event.Schema))
	if err != nil {
		t.Fatal(err)
	}
	for name := range at(events, "properties", "data", "properties").(map[string]any) {
		if at(loop, "properties", name) == nil {
			at(loop, "properties").(map[string]any)[name] = true
		}
	}
	d := &document{root: parsed.(map[string]any), compiler: jsonschema.NewCompiler(), seen: map[string]bool{}}
	strict(at(d.root, "components", "schemas"))
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("openapi.json", d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

// strict forbids properties that an object does not list.
func strict(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, object := v["properties"]; object && at(v, "properties", "data") == nil {
			if _, said := v["additionalProperties"]; !said {
				v["additionalProperties"] = false
			}
		}
		for _, child := range v {
			strict(child)
		}
	case []any:
		for _, child := range v {
			strict(child)
		}
	}
}

// at returns what stands under names; nil if nothing does.
func at(v any, names ...string) any {
	for _, name := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// check fails if an answer is not as described.
func (d *document) check(t *testing.T, method, route string, status int, body []byte) {
	t.Helper()
	name := []string{"paths", Prefix + route, strings.ToLower(method), "responses", strconv.Itoa(status), "content", "application/json", "schema"}
	if at(d.root, name...) == nil {
		t.Errorf("%s %s: an answer with status %d is not described", method, route, status)
		return
	}
	d.mu.Lock()
	d.seen[method+" "+route+" "+strconv.Itoa(status)] = true
	d.mu.Unlock()
	for i := range name {
		name[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(name[i])
	}
	schema, err := d.compiler.Compile("openapi.json#/" + strings.Join(name, "/"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = schema.Validate(answer)
	}
	if err != nil {
		t.Errorf("%s %s, status %d: %v\n%s", method, route, status, err, body)
	}
}

// wantAll fails if an operation of the description was never asked with success.
func (d *document) wantAll(t *testing.T) {
	t.Helper()
	for path, item := range at(d.root, "paths").(map[string]any) {
		for method := range item.(map[string]any) {
			operation := strings.ToUpper(method) + " " + strings.TrimPrefix(path, Prefix)
			if !d.seen[operation+" 200"] && !d.seen[operation+" 201"] {
				t.Errorf("%s was not asked", operation)
			}
		}
	}
}
