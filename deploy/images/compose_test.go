// Package images checks compose.yaml and the Dockerfile where no Docker engine
// runs: what they refer to is there, the build steps build, and the services
// run as the file says, each as a process of its own.
package images

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/kit/natsperm"
)

// composeFile is compose.yaml as the loader of Docker Compose reads it: variables and
// anchors are filled in, and short forms written out.
type composeFile struct {
	Name     string             `json:"name"`
	Services map[string]service `json:"services"`
	Volumes  map[string]any     `json:"volumes"`
	Secrets  map[string]struct {
		File string `json:"file"`
	} `json:"secrets"`
}

type service struct {
	Image       string              `json:"image"`
	Build       build               `json:"build"`
	Profiles    []string            `json:"profiles"`
	User        string              `json:"user"`
	Command     []string            `json:"command"`
	Environment map[string]*string  `json:"environment"`
	DependsOn   map[string]depends  `json:"depends_on"`
	Ports       []port              `json:"ports"`
	Volumes     []mount             `json:"volumes"`
	Tmpfs       []string            `json:"tmpfs"`
	Secrets     []map[string]string `json:"secrets"`
	Healthcheck healthcheck         `json:"healthcheck"`
	Deploy      struct {
		Replicas  int `json:"replicas"`
		Resources struct {
			Limits struct {
				CPUs   float64 `json:"cpus"`
				Memory string  `json:"memory"`
			} `json:"limits"`
		} `json:"resources"`
	} `json:"deploy"`
	ReadOnly    bool     `json:"read_only"`
	CapDrop     []string `json:"cap_drop"`
	SecurityOpt []string `json:"security_opt"`
	Logging     struct {
		Driver  string            `json:"driver"`
		Options map[string]string `json:"options"`
	} `json:"logging"`
}

type build struct {
	Context    string            `json:"context"`
	Dockerfile string            `json:"dockerfile"`
	Target     string            `json:"target"`
	Args       map[string]string `json:"args"`
}

type depends struct {
	Condition string `json:"condition"`
}

type port struct {
	HostIP    string `json:"host_ip"`
	Published string `json:"published"`
	Target    int    `json:"target"`
}

type mount struct {
	Type     string `json:"type"`
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only"`
}

type healthcheck struct {
	Test    []string `json:"test"`
	Disable bool     `json:"disable"`
}

// readCompose reads the file with these variables (NAME=VALUE) alone, with all profiles.
func readCompose(t *testing.T, variables ...string) composeFile {
	t.Helper()
	path, err := filepath.Abs("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "-C", "../tools/compose", "run", ".", path)
	own := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "UNLOOP_") || strings.HasPrefix(v, "LOOP_") || strings.HasPrefix(v, "COMPOSE_")
	})
	cmd.Env = slices.Concat(own, []string{"GOWORK=off"}, variables)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("load compose.yaml: %v\n%s", err, stderr(err))
	}
	var file composeFile
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

func stderr(err error) string {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // as exec returns it
		return string(exit.Stderr)
	}
	return ""
}

// env returns a variable of the service; "" if it is not set.
func (s service) env(name string) string {
	if value := s.Environment[name]; value != nil {
		return *value
	}
	return ""
}

func TestComposeRefersToWhatIsThere(t *testing.T) {
	t.Parallel()
	file, stages := readCompose(t), readDockerfile(t)
	for name, s := range file.Services {
		if s.Build.Context == "" {
			if _, tag, ok := strings.Cut(s.Image, ":"); !ok || tag == "latest" {
				t.Errorf("%s: image %s has no version", name, s.Image)
			}
		} else if _, ok := stages[s.Build.Target]; !ok || s.Build.Dockerfile != "deploy/images/Dockerfile" || s.Build.Context != "." {
			t.Errorf("%s: there is no target %s in %s below %s", name, s.Build.Target, s.Build.Dockerfile, s.Build.Context)
		}
		for other, on := range s.DependsOn {
			if on.Condition == "service_healthy" && !healthKnown(file, stages, other) {
				t.Errorf("%s depends on %s, which has no health check", name, other)
			}
		}
		for _, volume := range s.Volumes {
			checkMount(t, file, name, volume)
		}
		for _, secret := range s.Secrets {
			if file.Secrets[secret["source"]].File == "" {
				t.Errorf("%s: secret %s is not declared", name, secret["source"])
			}
		}
	}
	if n := file.Services["detector"].Deploy.Replicas; n != 2 {
		t.Errorf("%d detectors, want 2", n)
	}
}

// Volumes without a name are left behind by docker compose down. Images of others that declare
// one have something else mounted there.
func TestDownLeavesNoVolumeWithoutAName(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\nVOLUME") {
		t.Error("an image declares a volume")
	}
	file := readCompose(t)
	for name, path := range map[string]string{"redis": "/data", "prometheus": "/prometheus"} {
		s := file.Services[name]
		if !slices.Contains(s.Tmpfs, path) && !slices.ContainsFunc(s.Volumes, func(m mount) bool { return m.Target == path }) {
			t.Errorf("%s: nothing is mounted at %s, where its image has a volume", name, path)
		}
	}
}

func healthKnown(file composeFile, stages map[string]stage, name string) bool {
	s := file.Services[name]
	return len(s.Healthcheck.Test) > 0 || inherits(stages, s.Build.Target, "HEALTHCHECK")
}

// checkMount expects a volume to be declared, and a file or folder of the repository to
// be there and not to be written to.
func checkMount(t *testing.T, file composeFile, name string, m mount) {
	t.Helper()
	switch m.Type {
	case "volume":
		if _, ok := file.Volumes[m.Source]; !ok {
			t.Errorf("%s: volume %s is not declared", name, m.Source)
		}
	case "bind":
		if _, err := os.Stat(filepath.Join("../..", m.Source)); err != nil || !m.ReadOnly {
			t.Errorf("%s mounts %s (read-only: %v): %v", name, m.Source, m.ReadOnly, err)
		}
	default:
		t.Errorf("%s: mount %+v", name, m)
	}
}

// TestEveryServiceIsConfined expects of each container what keeps its faults to itself.
func TestEveryServiceIsConfined(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t)
	for name, s := range readCompose(t).Services {
		limits := s.Deploy.Resources.Limits
		if limits.Memory == "" || limits.CPUs == 0 {
			t.Errorf("%s: limits are %+v", name, limits)
		}
		if s.Logging.Options["max-size"] == "" || s.Logging.Options["max-file"] == "" {
			t.Errorf("%s: its log grows without end", name)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s has read_only %v, cap_drop %v, security_opt %v", name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
		}
		if s.Build.Target != "" && !inherits(stages, s.Build.Target, "USER") {
			t.Errorf("%s runs as root", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %+v is published beyond loopback", name, p)
			}
		}
	}
}

// TestTwoCopiesRunSideBySide expects that a variable moves each published port.
func TestTwoCopiesRunSideBySide(t *testing.T) {
	t.Parallel()
	const moved = "20000"
	var variables []string
	for _, name := range portVariable.FindAllStringSubmatch(read(t, "../../compose.yaml"), -1) {
		variables = append(variables, name[1]+"="+moved)
	}
	one, two := published(readCompose(t)), published(readCompose(t, variables...))
	for where, p := range one {
		if two[where] != moved {
			t.Errorf("%s is published at %s, and with %v at %s", where, p, variables, two[where])
		}
	}
	if one["gateway 8080"] != "8080" || one["notifier 8081"] != "8082" || one["nats 4222"] != "4222" {
		t.Errorf("published: %v", one)
	}
}

var portVariable = regexp.MustCompile(`\$\{(UNLOOP_[A-Z]*_?PORT):-`)

// published returns the published port of each service and port of its container.
func published(file composeFile) map[string]string {
	ports := map[string]string{}
	for name, s := range file.Services {
		for _, p := range s.Ports {
			inside, _ := json.Marshal(p.Target)
			ports[name+" "+string(inside)] = p.Published
		}
	}
	return ports
}

// TestGatewaysScaleBehindTheBalancer expects that the balancer takes the port of the only
// gateway, and that gateways then take whatever is free.
func TestGatewaysScaleBehindTheBalancer(t *testing.T) {
	t.Parallel()
	ports := published(readCompose(t, "UNLOOP_PORT=9000", "UNLOOP_GATEWAY_PORT=0", "UNLOOP_ADMIN_PORT=0"))
	if ports["balancer 8080"] != "9000" || ports["gateway 8080"] != "0" || ports["gateway 8081"] != "0" {
		t.Errorf("published: %v", ports)
	}
}

// TestProfilesHoldWhatTheySay expects the services of each profile, and none of them
// without it.
func TestProfilesHoldWhatTheySay(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for name, s := range readCompose(t).Services {
		for _, profile := range append(s.Profiles, map[bool]string{true: "always"}[len(s.Profiles) == 0]) {
			if profile != "" {
				got[profile] = append(got[profile], name)
			}
		}
	}
	for profile, want := range map[string][]string{
		"always":  {"detector", "embedworker", "gateway", "nats", "nats-init", "notifier"},
		"cli":     {"cli"},
		"demo":    {"demo-agents", "demo-gateway", "demo-model"},
		"ha":      {"balancer"},
		"onnx":    {"embedworker-onnx"},
		"redis":   {"redis"},
		"observe": {"grafana", "prometheus"},
	} {
		slices.Sort(got[profile])
		if !slices.Equal(got[profile], want) {
			t.Errorf("profile %s has %v, want %v", profile, got[profile], want)
		}
		delete(got, profile)
	}
	if len(got) > 0 {
		t.Errorf("more profiles: %v", got)
	}
}

// TestOnlyTheModelNeedsADownload expects images to need Go modules alone, unless the
// profile onnx asks for a model.
func TestOnlyTheModelNeedsADownload(t *testing.T) {
	t.Parallel()
	for name, s := range readCompose(t, "UNLOOP_MODEL_FROM=https://mirror.example").Services {
		if name == "embedworker-onnx" {
			if s.Build.Args["EMBEDDER"] != "onnx" || s.Build.Args["MODEL_FROM"] != "https://mirror.example" {
				t.Errorf("%s is built with %v", name, s.Build.Args)
			}
		} else if s.Build.Target != "" && s.Build.Args["EMBEDDER"] != "lexical" {
			t.Errorf("%s is built with %v", name, s.Build.Args)
		}
	}
}

// TestEachServiceHasItsOwnUserOfNATS expects one user a service, whose password is the
// one that NATS gets, from the same variable.
func TestEachServiceHasItsOwnUserOfNATS(t *testing.T) {
	t.Parallel()
	services := map[string]string{"gateway": "gateway", "detector": "detector", "embedworker": "embedworker", "notifier": "notifier", "cli": "operator", "nats-init": "operator", "demo-gateway": "gateway"}
	for _, variables := range [][]string{nil, {"UNLOOP_NATS_GATEWAY_PASSWORD=1", "UNLOOP_NATS_DETECTOR_PASSWORD=2", "UNLOOP_NATS_EMBEDWORKER_PASSWORD=3", "UNLOOP_NATS_NOTIFIER_PASSWORD=4", "UNLOOP_NATS_OPERATOR_PASSWORD=5"}} {
		file := readCompose(t, variables...)
		for name, user := range services {
			u, err := url.Parse(file.Services[name].env("UNLOOP_NATS"))
			if err != nil {
				t.Fatal(err)
			}
			password, _ := u.User.Password()
			if server := file.Services["nats"].env("NATS_" + strings.ToUpper(user) + "_PASSWORD"); u.User.Username() != user || server != `"`+password+`"` {
				t.Errorf("%s connects as %s; NATS has %s", name, u.User, server)
			}
			if prefix := file.Services[name].env("UNLOOP_NATS_INBOX_PREFIX"); prefix != natsperm.InboxPrefix(user) {
				t.Errorf("%s has inboxes at %q", name, prefix)
			}
		}
	}
}

// TestVariablesReachTheServices expects each variable of users at its service.
func TestVariablesReachTheServices(t *testing.T) {
	t.Parallel()
	for name, variables := range map[string][]string{
		"gateway": {
			"UNLOOP_UPSTREAM=openai=http://a:1;own=http://b:2/v1", "UNLOOP_UPSTREAM_KEY=openai=env:OPENAI_API_KEY", "UNLOOP_AUTH=key:file:/etc/unloop/keys",
			"UNLOOP_POLICIES=/etc/unloop/policies.yaml", "LOOP_GUARD_MAX_HITS=7", "UNLOOP_ALLOW_HOST=llm.example",
		},
		"notifier":    {"UNLOOP_WEBHOOK=http://hook:1", "UNLOOP_WEBHOOK_SECRET=whsec_x", "UNLOOP_ALLOW_CIDR=10.0.0.0/8", "UNLOOP_NOTIFY=/etc/unloop/notify.yaml"},
		"embedworker": {"UNLOOP_VECTOR_STORE=redis"},
		"detector":    {"UNLOOP_LOG_LEVEL=debug"},
	} {
		s := readCompose(t, variables...).Services[name]
		for _, variable := range variables {
			key, want, _ := strings.Cut(variable, "=")
			if !strings.HasSuffix(s.env(key), want) {
				t.Errorf("%s: %s is %q, want %q", name, key, s.env(key), want)
			}
		}
	}
	guarded := readCompose(t, "UNLOOP_ADMIN_KEY_FILE=/keys/admin")
	for _, name := range []string{"gateway", "detector", "embedworker", "notifier"} {
		s := guarded.Services[name]
		if s.env("UNLOOP_ADMIN_AUTH") != "key:file:"+s.Secrets[0]["target"] || guarded.Secrets[s.Secrets[0]["source"]].File != "/keys/admin" {
			t.Errorf("%s: --admin-auth is %s, the secret %v", name, s.env("UNLOOP_ADMIN_AUTH"), s.Secrets)
		}
	}
}

// TestGrafanaFindsItsDashboards expects the dashboards where the provisioning looks for
// them, and Prometheus where the data source is.
func TestGrafanaFindsItsDashboards(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	mounts := map[string]string{}
	for _, m := range file.Services["grafana"].Volumes {
		mounts[strings.TrimPrefix(m.Source, "./")] = m.Target
	}
	const below = "deploy/observe/grafana/"
	provider := read(t, "../../"+below+"provisioning/dashboards/unloop.yml")
	if at := mounts[below+"dashboards"]; at == "" || !strings.Contains(provider, "path: "+at+"}") {
		t.Errorf("dashboards are mounted at %q, and looked for by\n%s", at, provider)
	}
	if at := mounts[below+"provisioning"]; at != "/etc/grafana/provisioning" {
		t.Errorf("the provisioning is mounted at %q", at)
	}
	if source := read(t, "../../"+below+"provisioning/datasources/prometheus.yml"); !strings.Contains(source, "http://prometheus:9090") {
		t.Errorf("the data source is elsewhere than the service prometheus:\n%s", source)
	}
}
