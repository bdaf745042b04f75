package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/kedacore/keda/v2/version" // keeps the module, whose schemas are read, in go.mod
	"github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// scaledObject is KEDA's ScaledObject. Its Go types come with the controllers; the definition that they
// generate, which API servers check objects by, comes without.
type scaledObject struct {
	metav1.ObjectMeta
	Spec struct {
		ScaleTargetRef  struct{ Kind, Name string }
		MinReplicaCount int
		MaxReplicaCount int
		Triggers        []struct {
			Type, MetricType string
			Metadata         map[string]string
		}
	}
}

// UnmarshalJSON refuses what the definition does not have.
func (s *scaledObject) UnmarshalJSON(data []byte) error {
	schema, err := scaledObjectSchema()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return err
	}
	type plain struct {
		Metadata *metav1.ObjectMeta
		Spec     any
	}
	return json.Unmarshal(data, &plain{&s.ObjectMeta, &s.Spec})
}

// kedaFolder is where the module's files are.
var kedaFolder = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2").Output()
	return strings.TrimSpace(string(out)), err
})

// scaledObjectSchema is the schema of KEDA's CustomResourceDefinition, without room for other fields.
var scaledObjectSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	folder, err := kedaFolder()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(folder, "config/crd/bases/keda.sh_scaledobjects.yaml"))
	if err != nil {
		return nil, err
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(data, &definition); err != nil {
		return nil, err
	}
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	closeObjects(schema)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	if err := compiler.AddResource("scaledobject.json", schema); err != nil {
		return nil, err
	}
	return compiler.Compile("scaledobject.json")
})

// closeObjects makes a schema refuse the fields that it does not name.
func closeObjects(schema map[string]any) {
	if properties, ok := schema["properties"].(map[string]any); ok {
		if open, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool); !open && schema["additionalProperties"] == nil {
			schema["additionalProperties"] = false
		}
		for _, child := range properties {
			closeObjects(child.(map[string]any))
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if child, ok := schema[key].(map[string]any); ok {
			closeObjects(child)
		}
	}
}

// TestKEDAScalesDetectorsByLatency checks the triggers against the parameters that KEDA's scalers have.
func TestKEDAScalesDetectorsByLatency(t *testing.T) {
	t.Parallel()
	object := render(t, cases(t)["keda"]).scaledObjects[release+"-unloop-detector"]
	if object == nil || len(object.Spec.Triggers) != 2 {
		t.Fatalf("the scaled object is %+v", object)
	}
	known := scalerParameters(t)
	for _, trigger := range object.Spec.Triggers {
		for name := range trigger.Metadata {
			if !known[trigger.Type+" "+name] {
				t.Errorf("KEDA's scaler %s has no parameter %s", trigger.Type, name)
			}
		}
	}
	latency := object.Spec.Triggers[0]
	if latency.Type != "prometheus" || latency.MetricType != "Value" || !strings.Contains(latency.Metadata["query"], `unloop_gateway_check_seconds_bucket{namespace="agents"}`) {
		t.Errorf("the latency is asked for by %+v", latency)
	}
}

// scalerParameters returns each "scaler parameter" of KEDA's own list.
func scalerParameters(t *testing.T) map[string]bool {
	t.Helper()
	folder, err := kedaFolder()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Scalers []struct {
			Type       string `json:"type"`
			Parameters []struct {
				Name string `json:"name"`
			} `json:"parameters"`
		} `json:"scalers"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(folder, "schema/generated/scalers-schema.json"))), &list); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, scaler := range list.Scalers {
		for _, parameter := range scaler.Parameters {
			known[fmt.Sprintf("%s %s", scaler.Type, parameter.Name)] = true
		}
	}
	return known
}
