package chart

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// component is the label that tells the services apart.
const component = "app.kubernetes.io/component"

// TestObjectsDecodeAndHaveValidNames renders every set of values: an object that does not decode
// strictly fails it.
func TestObjectsDecodeAndHaveValidNames(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		for key, meta := range all.meta {
			for _, fault := range validation.IsDNS1123Subdomain(meta.Name) {
				t.Errorf("%s: %s", key, fault)
			}
			if meta.Namespace != namespace {
				t.Errorf("%s is in namespace %q", key, meta.Namespace)
			}
			if faults := metav1validation.ValidateLabels(meta.Labels, field.NewPath(key)); len(faults) > 0 {
				t.Error(faults.ToAggregate())
			}
		}
		for name := range all.services {
			if len(name) > validation.DNS1035LabelMaxLength {
				t.Errorf("service %s: its name is too long", name)
			}
		}
	})
}

// selects reports whether a selector has the labels of pods that a deployment makes, and no others'.
func (o *objects) selects(t *testing.T, what string, selector map[string]string, want *appsv1.Deployment) {
	t.Helper()
	if len(selector) == 0 {
		t.Errorf("%s selects everything", what)
	}
	for name, deployment := range o.deployments {
		selected := labels.SelectorFromSet(selector).Matches(labels.Set(deployment.Spec.Template.Labels))
		if selected != (deployment == want) {
			t.Errorf("%s selects the pods of %s: %v", what, name, selected)
		}
	}
}

// owner returns the deployment of an object's service.
func (o *objects) owner(t *testing.T, meta metav1.ObjectMeta) *appsv1.Deployment {
	t.Helper()
	for _, deployment := range o.deployments {
		if deployment.Labels[component] == meta.Labels[component] {
			return deployment
		}
	}
	t.Fatalf("%s: no deployment of %s", meta.Name, meta.Labels[component])
	return nil
}

func TestSelectorsFindTheirPods(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		for name, d := range all.deployments {
			all.selects(t, "deployment "+name, d.Spec.Selector.MatchLabels, d)
			for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
				all.selects(t, "spread of "+name, spread.LabelSelector.MatchLabels, d)
			}
		}
		for name, s := range all.services {
			all.selects(t, "service "+name, s.Spec.Selector, all.owner(t, s.ObjectMeta))
		}
		for name, p := range all.networkPolicies {
			all.selects(t, "network policy "+name, p.Spec.PodSelector.MatchLabels, all.owner(t, p.ObjectMeta))
		}
		for name, p := range all.pdbs {
			all.selects(t, "disruption budget "+name, p.Spec.Selector.MatchLabels, all.owner(t, p.ObjectMeta))
		}
	})
}

func TestMonitorsFindTheMetricsOfTheirService(t *testing.T) {
	t.Parallel()
	all := render(t, cases(t)["everything"])
	if len(all.monitors) != len(all.deployments) {
		t.Errorf("%d monitors for %d deployments", len(all.monitors), len(all.deployments))
	}
	for name, monitor := range all.monitors {
		var found []string
		for service, s := range all.services {
			if labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) {
				found = append(found, service)
				if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == monitor.Spec.Endpoints[0].Port }) {
					t.Errorf("service %s has no port %s", service, monitor.Spec.Endpoints[0].Port)
				}
			}
		}
		if !slices.Equal(found, []string{name + "-metrics"}) {
			t.Errorf("monitor %s finds %v", name, found)
		}
		key := monitor.Spec.Endpoints[0].Authorization.Credentials
		if key.Name != "unloop-admin" || key.Key != "prometheus" {
			t.Errorf("monitor %s sends %s of %s", name, key.Key, key.Name)
		}
		job := monitor.Spec.Endpoints[0].RelabelConfigs[0]
		if job.TargetLabel != "job" || *job.Replacement != "unloop-"+monitor.Labels[component] {
			t.Errorf("monitor %s has the job %s", name, *job.Replacement)
		}
	}
}

func TestVolumesAndWhatTheyMountAreThere(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		for name, pod := range all.pods() {
			volumes := map[string]corev1.Volume{}
			for _, volume := range pod.Volumes {
				if faults := validation.IsDNS1123Label(volume.Name); len(faults) > 0 || volumes[volume.Name].Name != "" {
					t.Errorf("%s: volume %s: %v", name, volume.Name, faults)
				}
				volumes[volume.Name] = volume
				all.checkSource(t, name, volume)
			}
			paths := map[string]bool{}
			for _, mount := range pod.Containers[0].VolumeMounts {
				if _, ok := volumes[mount.Name]; !ok || !mount.ReadOnly || mount.SubPath != "" || paths[mount.MountPath] {
					t.Errorf("%s: mount %+v", name, mount)
				}
				delete(volumes, mount.Name)
				paths[mount.MountPath] = true
			}
			if len(volumes) > 0 {
				t.Errorf("%s: volumes that nothing mounts: %v", name, slices.Collect(maps.Keys(volumes)))
			}
			checkFiles(t, name, pod)
		}
	})
}

// checkSource expects the source of a volume to be rendered, or to be named in the values.
func (o *objects) checkSource(t *testing.T, pod string, v corev1.Volume) {
	t.Helper()
	switch {
	case v.Secret != nil:
		if !o.values[v.Secret.SecretName] || *v.Secret.DefaultMode != 0o440 {
			t.Errorf("%s: secret %s is named in no value, or its mode is %o", pod, v.Secret.SecretName, *v.Secret.DefaultMode)
		}
	case v.ConfigMap != nil:
		own := o.configMaps[v.ConfigMap.Name]
		if own == nil && !o.values[v.ConfigMap.Name] {
			t.Errorf("%s: there is no ConfigMap %s", pod, v.ConfigMap.Name)
		}
		for _, item := range v.ConfigMap.Items {
			if own != nil && own.Data[item.Key] == "" {
				t.Errorf("%s: ConfigMap %s has no key %s", pod, own.Name, item.Key)
			}
		}
	case v.PersistentVolumeClaim != nil:
		if !o.values[v.PersistentVolumeClaim.ClaimName] {
			t.Errorf("%s: claim %s is named in no value", pod, v.PersistentVolumeClaim.ClaimName)
		}
	default:
		t.Errorf("%s: volume %s has no source", pod, v.Name)
	}
}

// checkFiles expects each file in the arguments to be in a mount.
func checkFiles(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	files := map[string]bool{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		for _, item := range items(pod.Volumes[i]) {
			files[path.Join(mount.MountPath, item.Path)] = true
		}
	}
	for _, arg := range pod.Containers[0].Args {
		if at := strings.Index(arg, "/etc/unloop/"); at >= 0 && !files[arg[at:]] {
			t.Errorf("%s: the file of %s is in no mount", name, arg)
		}
	}
}

func items(v corev1.Volume) []corev1.KeyToPath {
	switch {
	case v.Secret != nil:
		return v.Secret.Items
	case v.ConfigMap != nil:
		return v.ConfigMap.Items
	default:
		return nil
	}
}

func TestPortsAreNamedByWhoUsesThem(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		has := func(d *appsv1.Deployment, what string, port intstr.IntOrString) {
			t.Helper()
			if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal }) {
				t.Errorf("%s: the pods of %s have no port %s", what, d.Name, port.StrVal)
			}
		}
		for name, s := range all.services {
			for _, port := range s.Spec.Ports {
				has(all.owner(t, s.ObjectMeta), "service "+name, port.TargetPort)
			}
		}
		for name, p := range all.networkPolicies {
			for _, rule := range p.Spec.Ingress {
				has(all.owner(t, p.ObjectMeta), "network policy "+name, *rule.Ports[0].Port)
			}
		}
		for name, i := range all.ingresses {
			for _, rule := range i.Spec.Rules {
				backend := rule.HTTP.Paths[0].Backend.Service
				service := all.services[backend.Name]
				if service == nil || service.Spec.Ports[0].Name != backend.Port.Name {
					t.Errorf("ingress %s leads to %s, which is %v", name, backend, service)
				}
			}
		}
		for _, d := range all.deployments {
			for _, probe := range probes(d) {
				has(d, "probe", probe.HTTPGet.Port)
			}
		}
	})
}

func probes(d *appsv1.Deployment) []*corev1.Probe {
	c := d.Spec.Template.Spec.Containers[0]
	return []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe}
}

func TestScalersTargetTheirDeployment(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		scaled := map[string]int{}
		for name, hpa := range all.hpas {
			target := hpa.Spec.ScaleTargetRef
			if target.Kind != "Deployment" || target.APIVersion != "apps/v1" || all.deployments[target.Name] != all.owner(t, hpa.ObjectMeta) {
				t.Errorf("autoscaler %s targets %+v", name, target)
			}
			scaled[target.Name]++
		}
		for name, object := range all.scaledObjects {
			if all.deployments[object.Spec.ScaleTargetRef.Name] != all.owner(t, object.ObjectMeta) {
				t.Errorf("scaled object %s targets %+v", name, object.Spec.ScaleTargetRef)
			}
			scaled[object.Spec.ScaleTargetRef.Name]++
		}
		for name, d := range all.deployments {
			if scaled[name] > 1 || (scaled[name] == 1) != (d.Spec.Replicas == nil) {
				t.Errorf("%s is scaled by %d, and its replicas are set: %v", name, scaled[name], d.Spec.Replicas != nil)
			}
		}
	})
}

func TestConfigMapsHoldWhatTheValuesSay(t *testing.T) {
	t.Parallel()
	text := render(t, cases(t)["text"]).configMaps
	if got := text[release+"-unloop-policies"].Data["policies.yaml"]; !strings.HasPrefix(got, "bundle_version: 1\npolicies:\n  - id: text\n") {
		t.Errorf("the bundle became\n%s", got)
	}
	if got := text[release+"-unloop-notify"].Data["notify.yaml"]; !strings.HasPrefix(got, "endpoints:\n  - name: hooks\n    webhook: {url: ") {
		t.Errorf("the endpoints became\n%s", got)
	}
}
