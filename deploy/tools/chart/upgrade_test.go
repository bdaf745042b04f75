package chart

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// lookup is the function of templates that asks the cluster for an object.
func (o *objects) lookup(_, kind, _, name string) (map[string]any, error) {
	d, ok := o.deployments[name]
	if kind != "Deployment" || !ok {
		return map[string]any{}, nil
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var found map[string]any
	return found, json.Unmarshal(data, &found)
}

// upgrade returns the objects and the notes of new values over a release.
func (o *objects) upgrade(t *testing.T, values string) (*objects, string, error) {
	t.Helper()
	parsed := parse(t, values)
	files, err := templateOver(parsed, o)
	if err != nil {
		return nil, "", err
	}
	after := newObjects(parsed)
	return after, files["unloop/templates/NOTES.txt"], after.decodeAll(files)
}

// TestUpgradesKeepWhatRuns expects the number of replicas after an upgrade, by what happened between it and
// the release before.
func TestUpgradesKeepWhatRuns(t *testing.T) {
	t.Parallel()
	const name = release + "-unloop-gateway"
	for title, c := range map[string]struct {
		before, after string
		scaled        int32 // what kubectl scale or an autoscaler made of it
		old           bool  // the release is of a chart that did not note the values
		want          int32
		note, refused string
	}{
		"nothing changed":                {before: `{}`, after: `{}`, want: 2},
		"another value":                  {before: `{}`, after: `{gateway: {replicas: 5}}`, want: 5},
		"scaled":                         {before: `{}`, scaled: 4, after: `{}`, want: 4, note: "gateway: 4 replicas keep running"},
		"scaled, then the same value":    {before: `{}`, scaled: 4, after: `{gateway: {replicas: 4}}`, want: 4},
		"scaled, then another value":     {before: `{}`, scaled: 4, after: `{gateway: {replicas: 6}}`, refused: "gateway.replicas changed from 2 to 6, but something else scaled the Deployment to 4"},
		"scaled under an earlier chart":  {before: `{}`, scaled: 4, old: true, after: `{}`, want: 4, note: "gateway: 4 replicas keep running"},
		"autoscaling on":                 {before: `{gateway: {replicas: 4}}`, after: `{gateway: {replicas: 4, autoscaling: {enabled: true}}}`, want: 4},
		"autoscaling on, earlier chart":  {before: `{gateway: {replicas: 4}}`, old: true, after: `{gateway: {autoscaling: {enabled: true}}}`, want: 4},
		"autoscaling, which scaled":      {before: `{gateway: {autoscaling: {enabled: true}}}`, scaled: 7, after: `{gateway: {autoscaling: {enabled: true}}}`, want: 7},
		"autoscaling off":                {before: `{gateway: {autoscaling: {enabled: true}}}`, scaled: 7, after: `{}`, want: 7, note: "gateway: 7 replicas keep running"},
		"scaled to none":                 {before: `{}`, scaled: -1, after: `{}`, want: 0, note: "gateway: 0 replicas keep running"},
		"a value for what is autoscaled": {before: `{gateway: {autoscaling: {enabled: true}}}`, scaled: 7, after: `{gateway: {replicas: 3, autoscaling: {enabled: true}}}`, want: 7},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			live := render(t, c.before)
			if c.scaled != 0 {
				scaled := max(c.scaled, 0)
				live.deployments[name].Spec.Replicas = &scaled
			}
			if c.old {
				live.deployments[name].Annotations = nil
			}
			after, notes, err := live.upgrade(t, c.after)
			switch {
			case c.refused != "":
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("the error is %v, want one with %q", err, c.refused)
				}
			case err != nil:
				t.Error(err)
			case replicas(after.deployments[name]) != c.want:
				t.Errorf("%d replicas, want %d", replicas(after.deployments[name]), c.want)
			case !strings.Contains(notes, c.note) || strings.Contains(notes, "keep running") != (c.note != ""):
				t.Errorf("the notes are\n%s", notes)
			}
		})
	}
}

// replicas returns the number of replicas that a Deployment gets: 1 where it says none, also if it had more.
func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// losses returns what an upgrade takes away from those who are served: objects, addresses, capacity.
func losses(before, after *objects) (all []string) {
	lose := func(what string, lost bool) {
		if lost {
			all = append(all, what)
		}
	}
	for name, d := range before.deployments {
		next := after.deployments[name]
		lose(name+" stops", next == nil)
		if next != nil {
			lose("the selector of "+name+" changes", !reflect.DeepEqual(d.Spec.Selector, next.Spec.Selector))
			lose(name+" has fewer replicas", replicas(next) < replicas(d))
			lose(name+" stops pods before others are ready", next.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() > 0)
		}
	}
	for name, s := range before.services {
		next := after.services[name]
		lose("service "+name+" is gone", next == nil)
		lose("service "+name+" has another type, or other ports or pods", next != nil && !sameAddress(s.Spec, next.Spec))
	}
	for name, d := range before.deployments {
		next := after.deployments[name]
		if next != nil {
			lose("the ports of "+name+" speak otherwise", scheme(d) != scheme(next))
		}
	}
	for name, in := range before.ingresses {
		next := after.ingresses[name]
		lose("ingress "+name+" changes", next == nil || !reflect.DeepEqual(in.Spec, next.Spec))
	}
	for name, p := range before.networkPolicies {
		next := after.networkPolicies[name]
		lose("network policy "+name+" lets less through", next != nil && (!holds(next.Spec.Ingress, p.Spec.Ingress) || !holds(next.Spec.Egress, p.Spec.Egress)))
	}
	for name, p := range before.pdbs {
		next := after.pdbs[name]
		lose("more pods of "+name+" may be evicted", next == nil || p.Spec.MaxUnavailable.IntValue() < next.Spec.MaxUnavailable.IntValue())
	}
	return all
}

// sameAddress reports whether clients of a service reach the same pods by the other one.
func sameAddress(one, other corev1.ServiceSpec) bool {
	return one.Type == other.Type && reflect.DeepEqual(one.Ports, other.Ports) && reflect.DeepEqual(one.Selector, other.Selector)
}

// holds reports whether all of some rules are among others.
func holds[R any](all, some []R) bool {
	return !slices.ContainsFunc(some, func(rule R) bool {
		return !slices.ContainsFunc(all, func(other R) bool { return reflect.DeepEqual(rule, other) })
	})
}

// scheme says whether a service's own port is HTTPS.
func scheme(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--tls-cert") })
}

// leaves calls visit with each value of a map of values, by its path.
func leaves(values map[string]any, path string, visit func(path string, value any)) {
	for name, value := range values {
		at := strings.TrimPrefix(path+"."+name, ".")
		if child, ok := value.(map[string]any); ok && len(child) > 0 {
			leaves(child, at, visit)
			continue
		}
		visit(at, value)
	}
}

// others returns values that a value could be changed to.
func others(value any) []any {
	switch v := value.(type) {
	case bool:
		return []any{!v, v}
	case float64:
		return []any{v - 1, v + 1, 0}
	case int64:
		return []any{v - 1, v + 1, 0}
	case string:
		return []any{"", "other", "10s", "2Gi", "DoNotSchedule", "LoadBalancer", "text", "debug", "onnx", "https://x.example", "Always"}
	case []any:
		return []any{[]any{}, []any{"x"}, []any{"x.example"}, []any{"nats://x:4222"}, []any{"10.0.0.0/8"}, []any{587}, []any{map[string]any{"podSelector": map[string]any{}}}}
	default:
		return []any{map[string]any{"x": "y"}, "x"}
	}
}

// with returns values in which that at a path is another one.
func with(path string, value any) map[string]any {
	head, rest, nested := strings.Cut(path, ".")
	if nested {
		return map[string]any{head: with(rest, value)}
	}
	return map[string]any{head: value}
}

// TestValuesThatDrainAreNamed changes each value alone, by an upgrade of a release with an Ingress, and
// expects the documentation to name those that take traffic or capacity away, and no others.
func TestValuesThatDrainAreNamed(t *testing.T) {
	t.Parallel()
	const base = `{gateway: {beside: {enabled: true}, ingress: {enabled: true, hosts: [llm.example]}}, notifier: {ingress: {hosts: [x.example]}}}`
	before := render(t, base)
	chart, err := load()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	leaves(chart.Values, "", func(path string, value any) {
		rendered := 0
		for _, other := range others(value) {
			values := parse(t, base)
			overlay(values, with(path, other))
			files, err := templateOver(values, before)
			after := newObjects(values)
			if err != nil || after.decodeAll(files) != nil {
				continue // the chart or the API server refuses such a value
			}
			if lost := losses(before, after); len(lost) > 0 {
				found[ofService(path)] = true
				t.Logf("%s = %v: %s", path, other, strings.Join(lost, ", "))
				return
			}
			if rendered++; rendered == 3 {
				return
			}
		}
	})
	_, section, _ := strings.Cut(read(t, "../../../docs/kubernetes.md"), "### Values that interrupt")
	section, _, _ = strings.Cut(section, "\n#")
	named := map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for i, text := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					named[text] = true
				}
			}
		}
	}
	if !maps.Equal(found, named) {
		t.Errorf("docs/kubernetes.md names these values that interrupt:\n%q\nbut these do:\n%q", slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(found)))
	}
}

// ofService returns the path of a value that several services have.
func ofService(path string) string {
	service, rest, _ := strings.Cut(path, ".")
	if slices.Contains(services, service) && (rest == "replicas" || strings.HasPrefix(rest, "podDisruptionBudget")) {
		return "SERVICE." + rest
	}
	return path
}

// overlay sets the values of one map in another.
func overlay(values, over map[string]any) {
	for name, value := range over {
		child, ok := value.(map[string]any)
		into, both := values[name].(map[string]any)
		if ok && both {
			overlay(into, child)
			continue
		}
		values[name] = value
	}
}
