package chart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// node runs the containers of pods as processes of this machine, as a kubelet would: each pod has an
// address of its own (in 127.0.0.0/8), its volumes are folders, its probes are asked.
type node struct {
	bin string
	// files are the contents of secrets, ConfigMaps and claims that the chart does not render, by name and key.
	files map[string]map[string]string
	// hosts replaces names by addresses, as DNS would.
	hosts map[string]string
}

// pod is a running pod.
type pod struct {
	t      *testing.T
	spec   corev1.PodSpec
	name   string
	ip     string
	root   string // where its file system begins
	cmd    *exec.Cmd
	log    *output
	exited chan struct{}
}

// output is a log that is read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var lastAddress atomic.Int32

// newAddress returns an address of this machine that no other test uses.
func newAddress() string {
	n, pid := lastAddress.Add(1), os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64+(pid>>8+int(n)>>8)%128, pid%256, n%250+1)
}

// binaries is the folder of the built binaries.
func binaries(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux gives each pod an address of 127.0.0.0/8 without being configured")
	}
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "gateway")); err != nil {
		t.Fatalf("there are no binaries to run: `make build` first (%v)", err)
	}
	return bin
}

// start runs a deployment's container; it ends with the test.
func (n node) start(t *testing.T, all *objects, service string) *pod {
	t.Helper()
	p := n.startFailing(t, all, service)
	t.Cleanup(p.stop)
	return p
}

// startFailing runs a deployment's container that is expected to end by itself.
func (n node) startFailing(t *testing.T, all *objects, service string) *pod {
	t.Helper()
	var spec corev1.PodSpec
	for _, d := range all.deployments {
		if d.Labels[component] == service {
			spec = d.Spec.Template.Spec
		}
	}
	return n.run(t, all, spec, service)
}

// run starts the container of a pod with one of the binaries.
func (n node) run(t *testing.T, all *objects, spec corev1.PodSpec, binary string) *pod {
	t.Helper()
	p := &pod{t: t, spec: spec, name: binary, ip: newAddress(), root: t.TempDir(), log: &output{}, exited: make(chan struct{})}
	for _, mount := range spec.Containers[0].VolumeMounts {
		n.mount(t, all, p, mount)
	}
	container := spec.Containers[0]
	p.cmd = exec.Command(filepath.Join(n.bin, binary), n.arguments(p, container.Args)...)
	p.cmd.Env = n.environment(t, p, container.Env)
	p.cmd.Dir, p.cmd.Stderr = "/", p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", binary, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }() // stop looks at how it ended
	return p
}

// inside maps what a container sees to what is on this machine.
func (n node) inside(p *pod, text string) string {
	for host, address := range n.hosts {
		text = strings.ReplaceAll(text, host, address)
	}
	return strings.ReplaceAll(text, "/etc/unloop/", p.root+"/etc/unloop/")
}

// arguments are the container's, with the pod's address where they listen everywhere.
func (n node) arguments(p *pod, args []string) []string {
	mapped := make([]string, len(args))
	for i, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if port, ok := strings.CutPrefix(value, ":"); ok && (name == "--admin" || name == "--listen" || name == "--beside-listen") {
			arg = name + "=" + p.ip + ":" + port
		}
		mapped[i] = n.inside(p, arg)
	}
	return mapped
}

// environment is the container's, with what Kubernetes adds without service links.
func (n node) environment(t *testing.T, p *pod, vars []corev1.EnvVar) []string {
	t.Helper()
	env := []string{"HOSTNAME=" + p.name, "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=443", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	for _, v := range vars {
		value := v.Value
		if v.ValueFrom != nil {
			ref := v.ValueFrom.SecretKeyRef
			content, ok := n.files[ref.Name][ref.Key]
			if !ok {
				t.Fatalf("%s: secret %s has no key %s", p.name, ref.Name, ref.Key)
			}
			value = content
		}
		if v.Name == "XDG_DATA_HOME" {
			value = p.root + value
		}
		env = append(env, v.Name+"="+n.inside(p, value))
	}
	return env
}

// mount writes a volume's files as Kubernetes does: the files are links into a folder, which is a link
// itself and is replaced when the content changes.
func (n node) mount(t *testing.T, all *objects, p *pod, mount corev1.VolumeMount) {
	t.Helper()
	i := slices.IndexFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	volume := p.spec.Volumes[i]
	var content map[string]string
	switch {
	case volume.Secret != nil:
		content = n.files[volume.Secret.SecretName]
	case volume.ConfigMap != nil && all.configMaps[volume.ConfigMap.Name] != nil:
		content = all.configMaps[volume.ConfigMap.Name].Data
	case volume.ConfigMap != nil:
		content = n.files[volume.ConfigMap.Name]
	default:
		content = n.files[volume.PersistentVolumeClaim.ClaimName]
	}
	if content == nil {
		t.Fatalf("%s: nothing to mount at %s", p.name, mount.MountPath)
	}
	if wanted := items(volume); len(wanted) > 0 {
		chosen := map[string]string{}
		for _, item := range wanted {
			text, ok := content[item.Key]
			if !ok {
				t.Fatalf("%s: volume %s has no key %s", p.name, volume.Name, item.Key)
			}
			chosen[item.Path] = text
		}
		content = chosen
	}
	seen := map[string]string{}
	for name, text := range content {
		seen[name] = n.inside(p, text)
	}
	p.project(mount.MountPath, seen)
}

// project makes a folder hold the files, replacing those before at once.
func (p *pod) project(path string, content map[string]string) {
	p.t.Helper()
	dir := p.root + path
	must(p.t, os.MkdirAll(dir, 0o755))
	version, err := os.MkdirTemp(dir, "..version")
	must(p.t, err)
	for name, text := range content {
		must(p.t, os.WriteFile(filepath.Join(version, name), []byte(text), 0o440))
		if link := filepath.Join(dir, name); !exists(link) {
			must(p.t, os.Symlink(filepath.Join("..data", name), link))
		}
	}
	must(p.t, os.Symlink(filepath.Base(version), filepath.Join(dir, "..new")))
	must(p.t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// url returns the address of a named port.
func (p *pod) url(scheme, port, path string) string {
	i := slices.IndexFunc(p.spec.Containers[0].Ports, func(c corev1.ContainerPort) bool { return c.Name == port })
	return scheme + "://" + p.ip + ":" + strconv.Itoa(int(p.spec.Containers[0].Ports[i].ContainerPort)) + path
}

// probe asks a probe of the container until it succeeds.
func (p *pod) probe(probe *corev1.Probe) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	get := probe.HTTPGet
	var answer string
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		status, text := request(ctx, http.DefaultClient, p.url("http", get.Port.StrVal, get.Path), nil)
		if status == http.StatusOK {
			return
		}
		answer = fmt.Sprint(status, " ", text)
		select {
		case <-again.C:
		case <-p.exited:
			p.t.Fatalf("%s ended:\n%s", p.name, p.log)
		case <-ctx.Done():
			p.t.Fatalf("%s answers its probe %s with %s\n%s", p.name, get.Path, answer, p.log)
		}
	}
}

// ready waits for the probes, as a kubelet does.
func (p *pod) ready() *pod {
	p.t.Helper()
	for _, probe := range []*corev1.Probe{p.spec.Containers[0].StartupProbe, p.spec.Containers[0].LivenessProbe, p.spec.Containers[0].ReadinessProbe} {
		p.probe(probe)
	}
	return p
}

// logs waits until the log has a text.
func (p *pod) logs(text string) {
	p.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for start := time.Now(); !strings.Contains(p.log.String(), text); <-again.C {
		if time.Since(start) > time.Minute {
			p.t.Fatalf("%s did not log %s:\n%s", p.name, text, p.log)
		}
	}
}

// stop ends the pod as a kubelet does, and expects it to leave in time and without a fault.
func (p *pod) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	grace := time.Duration(*p.spec.TerminationGracePeriodSeconds) * time.Second
	select {
	case <-p.exited:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		p.t.Errorf("%s did not stop within %s", p.name, grace)
		<-p.exited
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%s ended with %d:\n%s", p.name, code, p.log)
	}
	if strings.Contains(p.log.String(), "no flag has it") {
		p.t.Errorf("%s got a variable that it does not know:\n%s", p.name, p.log)
	}
}

// request sends a request, a POST with a body, and returns the status of its answer, or 0 and the error.
func request(ctx context.Context, client *http.Client, url string, headers map[string]string, body ...string) (int, string) {
	method, content := http.MethodGet, io.Reader(http.NoBody)
	if len(body) > 0 {
		method, content = http.MethodPost, strings.NewReader(body[0])
	}
	r, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return 0, err.Error()
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(text)
}
