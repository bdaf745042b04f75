// Package images checks compose.yaml and the Dockerfile where no Docker engine
// runs: what they refer to is there, the build steps build, and the services
// run as the file says, each as a process of its own.
package images

import (
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// composeFile is what compose.yaml may say: a field that is not here is an
// error, so that none goes unchecked.
type composeFile struct {
	Name         string             `yaml:"name"`
	Services     map[string]service `yaml:"services"`
	Volumes      map[string]any     `yaml:"volumes"`
	XService     any                `yaml:"x-service"`
	XEnvironment any                `yaml:"x-environment"`
}

type service struct {
	Image string `yaml:"image"`
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
		Target     string `yaml:"target"`
	} `yaml:"build"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Ports       []string `yaml:"ports"`
	Volumes     []string `yaml:"volumes"`
	Healthcheck struct {
		Test        []string `yaml:"test"`
		Interval    string   `yaml:"interval"`
		Timeout     string   `yaml:"timeout"`
		StartPeriod string   `yaml:"start_period"`
		Retries     int      `yaml:"retries"`
	} `yaml:"healthcheck"`
	Deploy struct {
		Replicas int `yaml:"replicas"`
	} `yaml:"deploy"`
	Restart         string   `yaml:"restart"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	StopGracePeriod string   `yaml:"stop_grace_period"`
}

// variable is ${NAME:-default}, the one form that the file uses.
var variable = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)

// readCompose reads the file as it is with none of its variables set.
func readCompose(t *testing.T) composeFile {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(variable.ReplaceAllString(read(t, "../../compose.yaml"), "$1")))
	decoder.KnownFields(true)
	var file composeFile
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file
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
			if on.Condition != "service_healthy" || !healthKnown(file, stages, other) {
				t.Errorf("%s depends on %s (%s), which has no health check", name, other, on.Condition)
			}
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, ok := file.Volumes[source]; !ok {
				t.Errorf("%s: volume %s is not declared", name, source)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s is published beyond loopback", name, port)
			}
		}
	}
	if n := file.Services["detector"].Deploy.Replicas; n != 2 {
		t.Errorf("%d detectors, want 2", n)
	}
}

func healthKnown(file composeFile, stages map[string]stage, name string) bool {
	s := file.Services[name]
	return len(s.Healthcheck.Test) > 0 || inherits(stages, s.Build.Target, "HEALTHCHECK")
}
