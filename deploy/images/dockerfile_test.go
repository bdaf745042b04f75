package images

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// stage is one stage of a Dockerfile.
type stage struct {
	name, from   string
	instructions []instruction
}

type instruction struct{ verb, rest string }

// all returns what follows a verb, each time that it occurs.
func (s stage) all(verb string) []string {
	var found []string
	for _, in := range s.instructions {
		if in.verb == verb {
			found = append(found, in.rest)
		}
	}
	return found
}

// parseDockerfile reads the stages, by name, with these values of the arguments before
// them. It knows lines that go on with a backslash, and no here-documents.
func parseDockerfile(text string, args map[string]string) (map[string]stage, error) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	stages, defaults := map[string]stage{}, map[string]string{}
	var current stage
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		if verb == "ARG" && current.name == "" {
			name, value, _ := strings.Cut(rest, "=")
			defaults[name] = value
			continue
		}
		if verb != "FROM" {
			current.instructions = append(current.instructions, instruction{verb, strings.TrimSpace(rest)})
			stages[current.name] = current
			continue
		}
		words := strings.Fields(regexp.MustCompile(`--\S+`).ReplaceAllString(rest, ""))
		if len(words) != 3 || words[1] != "AS" {
			return nil, fmt.Errorf("read %q: want FROM IMAGE AS NAME", line)
		}
		from := os.Expand(words[0], func(name string) string { return cmp.Or(args[name], defaults[name]) })
		current = stage{name: words[2], from: from}
		stages[current.name] = current
	}
	return stages, nil
}

func readDockerfile(t *testing.T) map[string]stage {
	t.Helper()
	return readDockerfileWith(t, nil)
}

func readDockerfileWith(t *testing.T, args map[string]string) map[string]stage {
	t.Helper()
	stages, err := parseDockerfile(read(t, "Dockerfile"), args)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// inherits reports whether a stage, or one that it is built on, has the verb.
func inherits(stages map[string]stage, name, verb string) bool {
	for {
		s, ok := stages[name]
		if !ok {
			return false
		}
		if len(s.all(verb)) > 0 {
			return true
		}
		name = s.from
	}
}

// testVersion and testRevision are the arguments VERSION and REVISION of the build.
const testVersion, testRevision = "1.2.3", "0123456789abcdef"

// buildOutside does what the build stage does, in a folder that holds what
// Docker would send it, and returns that folder.
func buildOutside(t *testing.T, build stage) string {
	t.Helper()
	src := t.TempDir()
	copyContext(t, src)
	// The make that may have started this test must not choose the modules to build.
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MODULES=") })
	env := slices.Concat(own, environment(t, build), []string{"MAKEFLAGS=", "MFLAGS=", "MAKELEVEL=0", "VERSION=" + testVersion, "REVISION=" + testRevision})
	for _, step := range build.all("RUN") {
		step = regexp.MustCompile(`--mount=\S+ *`).ReplaceAllString(step, "")
		cmd := exec.CommandContext(t.Context(), "sh", "-c", step)
		cmd.Dir, cmd.Env = src, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
	}
	return src
}

// environment are the variables that a stage sets, with Docker's own arguments
// filled in.
func environment(t *testing.T, s stage) []string {
	t.Helper()
	args := map[string]string{"TARGETOS": runtime.GOOS, "TARGETARCH": runtime.GOARCH}
	var env []string
	for _, line := range s.all("ENV") {
		for pair := range strings.FieldsSeq(line) {
			env = append(env, os.Expand(pair, func(name string) string {
				if _, ok := args[name]; !ok {
					t.Errorf("ENV %s: no argument %s", pair, name)
				}
				return args[name]
			}))
		}
	}
	return env
}

// copyContext copies what the ignore file lets through: "*", then lines of "!NAME" for
// what is needed and of "NAME" for what is not.
func copyContext(t *testing.T, into string) {
	t.Helper()
	for line := range strings.Lines(read(t, "Dockerfile.dockerignore")) {
		line = strings.TrimSpace(line)
		if line == "" || line == "*" || strings.HasPrefix(line, "#") {
			continue
		}
		name, needed := strings.CutPrefix(line, "!")
		if needed {
			copyTree(t, filepath.Join("..", "..", name), filepath.Join(into, name))
		} else if err := os.RemoveAll(filepath.Join(into, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else {
		err = os.WriteFile(to, []byte(read(t, from)), info.Mode().Perm())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkCopies expects everything that images take from the build stage's
// folder to be there, and from the context, too.
func checkCopies(t *testing.T, stages map[string]stage, src string) {
	t.Helper()
	for _, s := range stages {
		for _, line := range s.all("COPY") {
			if !strings.HasPrefix(line, "--from=build ") {
				continue
			}
			for word := range strings.FieldsSeq(line) {
				inside, ok := strings.CutPrefix(word, "/src/")
				if !ok {
					continue
				}
				if _, err := os.Stat(filepath.Join(src, inside)); err != nil {
					t.Errorf("stage %s: %v", s.name, err)
				}
			}
		}
	}
}

func TestDockerfileUsesPinnedImagesAndNoRoot(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t)
	for _, s := range stages {
		if _, ours := stages[s.from]; ours || s.from == "scratch" {
			continue
		}
		if _, tag, ok := strings.Cut(s.from, ":"); !ok || tag == "latest" {
			t.Errorf("stage %s is built on %s, without a version", s.name, s.from)
		}
	}
	for _, embedder := range []string{"", "lexical", "onnx"} {
		stages := readDockerfileWith(t, map[string]string{"EMBEDDER": embedder})
		for _, image := range []string{"gateway", "detector", "notifier", "embedworker", "unloop"} {
			for _, verb := range []string{"USER", "HEALTHCHECK", "ENTRYPOINT"} {
				if !inherits(stages, image, verb) {
					t.Errorf("image %s has no %s", image, verb)
				}
			}
			checkLabels(t, stages, image)
		}
	}
}

// checkLabels expects the labels that OCI names.
func checkLabels(t *testing.T, stages map[string]stage, image string) {
	t.Helper()
	for _, label := range []string{"title", "description", "vendor", "licenses", "source", "documentation", "version", "revision"} {
		found := false
		for s, ok := stages[image]; ok; s, ok = stages[s.from] {
			found = found || strings.Contains(strings.Join(s.all("LABEL"), " "), "org.opencontainers.image."+label+"=")
		}
		if !found {
			t.Errorf("image %s has no label %s", image, label)
		}
	}
}

// TestEmbedderChoosesTheImageOfTheWorker expects the default to need neither a C library
// nor a model.
func TestEmbedderChoosesTheImageOfTheWorker(t *testing.T) {
	t.Parallel()
	for embedder, want := range map[string]string{"": "scratch", "lexical": "scratch", "onnx": "debian:bookworm-slim"} {
		stages := readDockerfileWith(t, map[string]string{"EMBEDDER": embedder})
		below := stages[stages["embedworker"].from]
		if below.from != want || !slices.Contains(below.all("ENV"), "UNLOOP_EMBEDDER=lexical") == (want == "scratch") {
			t.Errorf("EMBEDDER=%s is built on %s with %v", embedder, below.from, below.all("ENV"))
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
