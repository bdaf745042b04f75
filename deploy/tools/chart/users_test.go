package chart

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServicesRunWithUsersOfLeastPrivilege does what docs/kubernetes.md says about users: a server includes
// the account that `unloop nats config` has written, in which each service may do what it needs alone.
func TestServicesRunWithUsersOfLeastPrivilege(t *testing.T) {
	t.Parallel()
	upstream, _ := model(t)
	n := node{bin: binaries(t), files: map[string]map[string]string{}}
	address, dir := newAddress(), t.TempDir()
	command(t, dir, filepath.Join(n.bin, "unloop"), "nats", "config", "nats", "--tls", "--host", address)
	command(t, dir, "sh", "-c", documented(t, "sed -n '/^accounts"))
	seeds := folder(t, filepath.Join(dir, "nats"), "*.nk")
	n.files["unloop-nats"], n.files["nats-ca"] = seeds, folder(t, filepath.Join(dir, "nats"), "ca.pem")
	config := fmt.Sprintf("listen: \"%s:4222\"\njetstream { store_dir: %q }\ntls { cert_file: %q, key_file: %q }\ninclude \"../accounts.conf\"\n",
		address, t.TempDir(), filepath.Join(dir, "nats/nats-1.pem"), filepath.Join(dir, "nats/nats-1-key.pem"))
	must(t, os.WriteFile(filepath.Join(dir, "nats/server.conf"), []byte(config), 0o600))
	startConfigured(t, filepath.Join(dir, "nats/server.conf"))
	all := quick(t, fmt.Sprintf(`{nats: {urls: ["tls://%s:4222"], replicas: 1, init: {enabled: true},
		auth: {type: nkey, secret: unloop-nats}, sealKey: %s, tls: {caSecret: {name: nats-ca, key: ca.pem}}}, gateway: {upstreams: {openai: %q}}}`, address, sealKey(t, dir), upstream))
	n.finish(t, all, "prod-unloop-nats-init")
	var pods []*pod
	for _, service := range []string{"detector", "embedworker", "notifier", "gateway"} {
		pods = append(pods, n.start(t, all, service).ready())
	}
	gateway := pods[3]
	gateway.logs(`"msg":"serving"`)
	if got := fmt.Sprint(asked(t, http.DefaultClient, gateway.url("http", "http", ""), nil, 6)); got != "[200 200 200 200 200 429]" {
		t.Errorf("the answers are %s", got)
	}
	if log := gateway.log.String(); strings.Contains(log, "record not used") {
		t.Errorf("the gateway does not use what the operator sealed:\n%s", log)
	}
	for _, p := range pods {
		if log := strings.ToLower(p.log.String()); strings.Contains(log, "permission") {
			t.Errorf("%s lacks permissions:\n%s", p.name, log)
		}
	}
}

// TestRegionsMirrorTheOrigin runs the jobs of two regions against servers that `unloop nats config` has
// configured: the one mirrors the policies of the other, which collects its events.
func TestRegionsMirrorTheOrigin(t *testing.T) {
	t.Parallel()
	bin, dir := binaries(t), t.TempDir()
	addresses := map[string]string{"hub": newAddress(), "eu": newAddress()}
	var copied []string
	for _, c := range []struct{ name, values, config string }{
		{"hub", "regions: [eu]", "--region hub --regions eu"},
		{"eu", "origin: hub", "--join hub/region-eu.json"},
	} {
		address := addresses[c.name]
		args := append([]string{"nats", "config", c.name, "--tls", "--host", address, "--listen", address}, strings.Fields(c.config)...)
		command(t, dir, filepath.Join(bin, "unloop"), args...)
		startConfigured(t, filepath.Join(dir, c.name, "nats-1.conf"))
		n := node{bin: bin, files: map[string]map[string]string{
			"unloop-nats": folder(t, filepath.Join(dir, c.name), "*.nk"), "nats-ca": folder(t, filepath.Join(dir, c.name), "ca.pem"),
		}}
		all := quick(t, fmt.Sprintf(`{nats: {urls: ["tls://%s:4222"], replicas: 1, domain: %s, %s, init: {enabled: true},
			auth: {type: nkey, secret: unloop-nats}, sealKey: %s, tls: {caSecret: {name: nats-ca, key: ca.pem}}}}`, address, c.name, c.values, sealKeyOf(t, dir, c.name)))
		n.finish(t, all, "prod-unloop-nats-init")
		copied = append(copied, status(t, dir, bin, c.name))
	}
	for i, want := range []string{"From region eu:     LOOP_EVENTS", "From region hub:    KV_LOOP_POLICIES"} {
		if !strings.Contains(copied[i], want) {
			t.Errorf("no %q in\n%s", want, copied[i])
		}
	}
}

// sealKeyOf returns the public key of seals that a region's services trust.
func sealKeyOf(t *testing.T, dir, region string) string {
	t.Helper()
	for line := range strings.Lines(read(t, filepath.Join(dir, region, "gateway.env"))) {
		if key, ok := strings.CutPrefix(strings.TrimSpace(line), "UNLOOP_SEAL_KEY="); ok {
			return key
		}
	}
	t.Fatalf("%s has no key of seals", region)
	return ""
}

// status returns what unloop status says to a region's monitor.
func status(t *testing.T, dir, bin, region string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("set -a; . %s/monitor.env; exec %s/unloop status", region, bin))
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // its exit code says that no gateway runs
	return string(out)
}

// sealKey runs the documented command for the public key of seals.
func sealKey(t *testing.T, dir string) string {
	t.Helper()
	line, _, _ := strings.Cut(documented(t, "sed -n 's/^UNLOOP_SEAL_KEY"), "#")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = dir
	out, err := cmd.Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

// TestServersAcceptPasswordsAndCredentials runs a detector beside servers that ask for these.
func TestServersAcceptPasswordsAndCredentials(t *testing.T) {
	t.Parallel()
	bin := binaries(t)
	operator, creds := withOperator(t)
	for kind, c := range map[string]struct {
		config string
		secret map[string]string
	}{
		"password": {"authorization { users: [{user: detector, password: secret}] }", map[string]string{"detector.user": "detector", "detector.password": "secret"}},
		"creds":    {operator, map[string]string{"detector.creds": creds}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := newAddress()
			startServer(t, fmt.Sprintf("listen: \"%s:4222\"\njetstream { store_dir: %q }\n%s\n", address, t.TempDir(), c.config))
			all := quick(t, fmt.Sprintf(`{nats: {urls: ["nats://%s:4222"], replicas: 1, auth: {type: %s, secret: unloop-nats}}}`, address, kind))
			n := node{bin: bin, files: map[string]map[string]string{"unloop-nats": c.secret}}
			n.start(t, all, "detector").ready()
		})
	}
}

// documented returns a command of docs/kubernetes.md by how it begins.
func documented(t *testing.T, begin string) string {
	t.Helper()
	for line := range strings.Lines(read(t, "../../../docs/kubernetes.md")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, begin) {
			return line
		}
	}
	t.Fatalf("docs/kubernetes.md has no command that begins with %q", begin)
	return ""
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// finish runs a job to its end.
func (n node) finish(t *testing.T, all *objects, name string) {
	t.Helper()
	job := all.jobs[name]
	if job == nil {
		t.Fatalf("there is no job %s", name)
	}
	p := n.run(t, all, job.Spec.Template.Spec, "unloop")
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("job %s ended with %d:\n%s", name, code, p.log)
	}
}

// folder returns the files of a folder that match, by name.
func folder(t *testing.T, dir, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		entries, _ := os.ReadDir(dir)
		t.Fatalf("%s has no %s: %v", dir, pattern, entries)
	}
	found := map[string]string{}
	for _, file := range files {
		found[filepath.Base(file)] = read(t, file)
	}
	return found
}
