// Package chart tests the Helm chart without a cluster: what Helm renders of many values decodes
// strictly into the API types of Kubernetes, the Prometheus operator and KEDA, its parts refer to each
// other, and the rendered containers start as processes.
//
// It renders with Helm's own engine, as `helm template` does, and speaks to no API server.
package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	chartFolder = "../../chart"
	release     = "prod"
	namespace   = "agents"
)

// parse reads values as `helm -f` does.
func parse(t *testing.T, values string) map[string]any {
	t.Helper()
	parsed := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(values), &parsed); err != nil {
		t.Fatalf("read values: %v", err)
	}
	return parsed
}

// load reads the chart once: Helm logs each link that it follows.
var load = sync.OnceValues(func() (*v2.Chart, error) { return loader.LoadDir(chartFolder) })

// template returns the files that Helm renders of the values, as YAML, and the notes.
func template(values map[string]any) (map[string]string, error) {
	return templateOver(values, newObjects(nil))
}

// templateOver is template for a cluster that has objects of an earlier release.
func templateOver(values map[string]any, live *objects) (map[string]string, error) {
	chart, err := load()
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, options, nil)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true, CustomTemplateFuncs: map[string]any{"lookup": live.lookup}}.RenderWithContext(context.Background(), chart, all)
}

// documents splits a rendered file into its objects.
func documents(file string) [][]byte {
	var found [][]byte
	for document := range bytes.SplitSeq([]byte(file), []byte("\n---")) {
		if content := bytes.TrimPrefix(bytes.TrimSpace(document), []byte("---")); len(bytes.TrimSpace(content)) > 0 {
			found = append(found, content)
		}
	}
	return found
}

// render returns the objects of the values, decoded.
func render(t *testing.T, values string) *objects {
	t.Helper()
	return renderValues(t, parse(t, values))
}

func renderValues(t *testing.T, values map[string]any) *objects {
	t.Helper()
	files, err := template(values)
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	all := newObjects(values)
	if err := all.decodeAll(files); err != nil {
		t.Error(err)
	}
	return all
}

// decodeAll reads the objects of rendered files.
func (o *objects) decodeAll(files map[string]string) error {
	var faults []error
	for name, file := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		for _, document := range documents(file) {
			if err := o.decode(document); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w\n%s", name, err, document))
			}
		}
	}
	return errors.Join(faults...)
}

// cases returns the files of testdata/values, by name.
func cases(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values: %v", err)
	}
	found := map[string]string{"defaults": ""}
	for _, file := range files {
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = read(t, file)
	}
	return found
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// rendered are the objects of each set of values, which tests only read.
var rendered sync.Map

// eachCase runs a test for each set of values.
func eachCase(t *testing.T, test func(*testing.T, *objects)) {
	t.Helper()
	all := cases(t)
	for _, name := range slices.Sorted(keys(all)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			once, _ := rendered.LoadOrStore(name, sync.OnceValue(func() *objects { return render(t, all[name]) }))
			test(t, once.(func() *objects)())
		})
	}
}

func TestNotesRender(t *testing.T) {
	t.Parallel()
	for name, values := range cases(t) {
		files, err := template(parse(t, values))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		notes := files["unloop/templates/NOTES.txt"]
		if !strings.Contains(notes, "."+namespace) || strings.Contains(notes, "<no value>") {
			t.Errorf("%s: notes are\n%s", name, notes)
		}
	}
}
