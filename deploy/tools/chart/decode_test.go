package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func keys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// objects are the rendered objects, by kind and name.
type objects struct {
	// values are the strings in the given values: names of secrets that exist, and so on.
	values          map[string]bool
	meta            map[string]metav1.ObjectMeta // by kind/name
	deployments     map[string]*appsv1.Deployment
	services        map[string]*corev1.Service
	accounts        map[string]*corev1.ServiceAccount
	configMaps      map[string]*corev1.ConfigMap
	hpas            map[string]*autoscalingv2.HorizontalPodAutoscaler
	pdbs            map[string]*policyv1.PodDisruptionBudget
	networkPolicies map[string]*networkingv1.NetworkPolicy
	ingresses       map[string]*networkingv1.Ingress
	monitors        map[string]*monitoringv1.ServiceMonitor
	rules           map[string]*monitoringv1.PrometheusRule
	scaledObjects   map[string]*scaledObject
	jobs            map[string]*batchv1.Job
}

func newObjects(values map[string]any) *objects {
	all := &objects{
		values: map[string]bool{}, meta: map[string]metav1.ObjectMeta{},
		deployments: map[string]*appsv1.Deployment{}, services: map[string]*corev1.Service{},
		accounts: map[string]*corev1.ServiceAccount{}, configMaps: map[string]*corev1.ConfigMap{},
		hpas: map[string]*autoscalingv2.HorizontalPodAutoscaler{}, pdbs: map[string]*policyv1.PodDisruptionBudget{},
		networkPolicies: map[string]*networkingv1.NetworkPolicy{}, ingresses: map[string]*networkingv1.Ingress{},
		monitors: map[string]*monitoringv1.ServiceMonitor{}, rules: map[string]*monitoringv1.PrometheusRule{},
		scaledObjects: map[string]*scaledObject{}, jobs: map[string]*batchv1.Job{},
	}
	collectStrings(values, all.values)
	return all
}

func collectStrings(value any, into map[string]bool) {
	switch v := value.(type) {
	case string:
		into[v] = true
	case map[string]any:
		for _, child := range v {
			collectStrings(child, into)
		}
	case []any:
		for _, child := range v {
			collectStrings(child, into)
		}
	}
}

// decode reads an object into its API type. Fields that the type does not have are errors.
func (o *objects) decode(document []byte) error {
	data, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	var head struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	key := head.Kind + "/" + head.Name
	if _, twice := o.meta[key]; twice {
		return fmt.Errorf("%s is rendered twice", key)
	}
	o.meta[key] = head.ObjectMeta
	read, ok := o.readers()[head.APIVersion+" "+head.Kind]
	if !ok {
		return fmt.Errorf("no API type for %s %s", head.APIVersion, head.Kind)
	}
	return read(head.Name, data)
}

// pods returns the pods of deployments and jobs, by their names.
func (o *objects) pods() map[string]corev1.PodSpec {
	found := map[string]corev1.PodSpec{}
	for name, d := range o.deployments {
		found[name] = d.Spec.Template.Spec
	}
	for name, j := range o.jobs {
		found[name] = j.Spec.Template.Spec
	}
	return found
}

// readers has a line for each kind that the chart makes.
func (o *objects) readers() map[string]func(string, []byte) error {
	return map[string]func(string, []byte) error{
		"apps/v1 Deployment":                      into(o.deployments),
		"v1 Service":                              into(o.services),
		"v1 ServiceAccount":                       into(o.accounts),
		"v1 ConfigMap":                            into(o.configMaps),
		"autoscaling/v2 HorizontalPodAutoscaler":  into(o.hpas),
		"policy/v1 PodDisruptionBudget":           into(o.pdbs),
		"networking.k8s.io/v1 NetworkPolicy":      into(o.networkPolicies),
		"networking.k8s.io/v1 Ingress":            into(o.ingresses),
		"monitoring.coreos.com/v1 ServiceMonitor": into(o.monitors),
		"monitoring.coreos.com/v1 PrometheusRule": into(o.rules),
		"keda.sh/v1alpha1 ScaledObject":           into(o.scaledObjects),
		"batch/v1 Job":                            into(o.jobs),
	}
}

func into[T any](all map[string]*T) func(string, []byte) error {
	return func(name string, data []byte) error {
		value := new(T)
		strict, err := k8sjson.UnmarshalStrict(data, value)
		all[name] = value
		return errors.Join(append(strict, err)...)
	}
}

func toJSON(t *testing.T, document []byte) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
