package chart

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestPodsHaveNoRights checks what every pod must keep, whatever the values.
func TestPodsHaveNoRights(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		for name, pod := range all.pods() {
			container := pod.Containers[0].SecurityContext
			if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser != 65532 || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: %+v", name, pod.SecurityContext)
			}
			if *container.AllowPrivilegeEscalation || !*container.ReadOnlyRootFilesystem || !slices.Equal(container.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("%s: %+v", name, container)
			}
			if *pod.EnableServiceLinks || *pod.AutomountServiceAccountToken || pod.HostNetwork || pod.HostPID {
				t.Errorf("%s has service links, a token, or the node's network or processes", name)
			}
		}
		for name, d := range all.deployments {
			pod := d.Spec.Template.Spec
			if pod.ServiceAccountName == "" || all.accounts[pod.ServiceAccountName] == nil && !all.values[pod.ServiceAccountName] {
				t.Errorf("%s has the service account %q", name, pod.ServiceAccountName)
			}
			if update := d.Spec.Strategy.RollingUpdate; *update.MaxUnavailable != intstr.FromInt32(0) || *update.MaxSurge != intstr.FromInt32(1) {
				t.Errorf("%s is updated by %+v", name, update)
			}
		}
	})
}

// TestNoSecretIsAValue expects variables with secrets to refer to them, and no flag to hold one.
func TestNoSecretIsAValue(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		for name, pod := range all.pods() {
			container := pod.Containers[0]
			for _, env := range container.Env {
				secret := slices.Contains([]string{"UNLOOP_CALLER_HASH_KEY", "UNLOOP_REDIS", "UNLOOP_WEBHOOK", "OTEL_EXPORTER_OTLP_HEADERS"}, env.Name)
				if secret != (env.ValueFrom != nil) {
					t.Errorf("%s: %s has the value %q", name, env.Name, env.Value)
				}
				if secret && !all.values[env.ValueFrom.SecretKeyRef.Name] {
					t.Errorf("%s: %s is of secret %s, which no value names", name, env.Name, env.ValueFrom.SecretKeyRef.Name)
				}
			}
			for _, arg := range container.Args {
				if strings.HasPrefix(arg, "--webhook-secret=") || strings.HasPrefix(arg, "--caller-hash-key") || strings.Contains(arg, "@") {
					t.Errorf("%s: %s shows a secret", name, arg)
				}
			}
		}
	})
}

// TestGoUsesLessMemoryThanTheLimit compares GOMEMLIMIT with limits.memory.
func TestGoUsesLessMemoryThanTheLimit(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		for name, d := range all.deployments {
			container := d.Spec.Template.Spec.Containers[0]
			limit := container.Resources.Limits.Memory().Value()
			i := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
			if (i >= 0) != (limit > 0) {
				t.Errorf("%s has a limit of %d, and GOMEMLIMIT: %v", name, limit, i >= 0)
			}
			if i < 0 {
				continue
			}
			mebibytes, err := strconv.ParseInt(strings.TrimSuffix(container.Env[i].Value, "MiB"), 10, 64)
			if part := float64(mebibytes<<20) / float64(limit); err != nil || part < 0.35 || part > 0.9 {
				t.Errorf("%s: GOMEMLIMIT is %s of %d bytes", name, container.Env[i].Value, limit)
			}
		}
	})
}

// TestPodsHaveTimeToStop compares the grace of the pods with what the flags of the containers take.
func TestPodsHaveTimeToStop(t *testing.T) {
	t.Parallel()
	eachCase(t, func(t *testing.T, all *objects) {
		for name, d := range all.deployments {
			var drain time.Duration
			for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
				for _, flag := range []string{"--shutdown-delay=", "--shutdown-grace=", "--webhook-grace=", "--semantic-max-budget=", "--max-budget="} {
					if value, ok := strings.CutPrefix(arg, flag); ok {
						part, err := time.ParseDuration(value)
						if err != nil {
							t.Errorf("%s: %s: %v", name, arg, err)
						}
						drain += part
					}
				}
			}
			if grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace < drain+5*time.Second {
				t.Errorf("%s is killed after %s, and takes %s to stop", name, grace, drain)
			}
		}
	})
}

func TestGatewaysKeepServingWithoutNATSUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	all := cases(t)
	paths := func(values, name string) (found []string) {
		for _, probe := range probes(render(t, values).deployments[name]) {
			found = append(found, probe.HTTPGet.Path)
		}
		return found
	}
	for name, want := range map[string][]string{
		release + "-unloop-gateway":  {"/readyz", "/healthz", "/healthz"},
		release + "-unloop-detector": {"/healthz", "/healthz", "/readyz"},
	} {
		if got := paths("", name); !slices.Equal(got, want) {
			t.Errorf("%s is probed at %v, want %v", name, got, want)
		}
	}
	if got, want := paths(all["minimal"], "loops-gateway"), []string{"/healthz", "/healthz", "/readyz"}; !slices.Equal(got, want) {
		t.Errorf("a gateway that needs NATS is probed at %v, want %v", got, want)
	}
}
