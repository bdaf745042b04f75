package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

// workflow reads a workflow, which actionlint has nothing against.
func workflow(t *testing.T, name string) *actionlint.Workflow {
	t.Helper()
	path := filepath.Join("../../.github/workflows", name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	linter, err := actionlint.NewLinter(os.Stderr, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	faults, err := linter.Lint(path, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Errorf("%s: %v", name, f)
	}
	w, errs := actionlint.Parse(text)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return w
}

var (
	pinned  = regexp.MustCompile(`^[\w./-]+@v\d+\.\d+\.\d+$`)
	targets = regexp.MustCompile(`\bmake ([a-z-]+)`)
	scripts = regexp.MustCompile(`(?m)^(\.?[\w./-]+/[\w.-]+)`)
)

// What workflows run is there, their actions are pinned, and only jobs that sign may ask for
// an identity.
func TestWorkflowsRunWhatIsThere(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ci.yml", "release.yml"} {
		w := workflow(t, name)
		if w.Permissions == nil || len(w.Permissions.Scopes) != 1 || w.Permissions.Scopes["contents"].Value.Value != "read" {
			t.Errorf("%s: jobs may do more than read unless they say so", name)
		}
		for id, job := range w.Jobs {
			signs := false
			for _, step := range job.Steps {
				switch exec := step.Exec.(type) {
				case *actionlint.ExecAction:
					if !pinned.MatchString(exec.Uses.Value) {
						t.Errorf("%s, %s: %s is not pinned", name, id, exec.Uses.Value)
					}
					signs = signs || strings.Contains(exec.Uses.Value, "attest") || strings.Contains(exec.Uses.Value, "cosign") || strings.Contains(exec.Uses.Value, "pypi")
				case *actionlint.ExecRun:
					checkRun(t, name+", "+id, exec.Run.Value, string(makefile))
				}
			}
			if asks := job.Permissions != nil && job.Permissions.Scopes["id-token"] != nil; asks != signs {
				t.Errorf("%s, %s: signs %v, asks for an identity %v", name, id, signs, asks)
			}
		}
	}
}

// cosign reads the credentials of docker alone, and npm a token only for a registry that is named.
func TestWorkflowsSignInWherePublishersLook(t *testing.T) {
	t.Parallel()
	for id, job := range workflow(t, "release.yml").Jobs {
		var commands, registries string
		for _, step := range job.Steps {
			switch exec := step.Exec.(type) {
			case *actionlint.ExecRun:
				commands += exec.Run.Value + "\n"
			case *actionlint.ExecAction:
				if at := exec.Inputs["registry-url"]; at != nil {
					registries += at.Value.Value
				}
			}
		}
		if publishes, signsIn := regexp.MustCompile(`publish-(images|chart)\.sh`).MatchString(commands), strings.Contains(commands, "docker login"); publishes != signsIn {
			t.Errorf("%s: publishes %v, signs in %v", id, publishes, signsIn)
		}
		if strings.Contains(commands, "publish-npm.sh") != (registries == "${{ vars.NPM_REGISTRY }}") {
			t.Errorf("%s: npm's registries %q", id, registries)
		}
	}
}

// The packages of npm are published once each, those with binaries before the one that names them,
// and a version that is tried is no one's default.
func TestPackagesOfNpmArePublishedInOrder(t *testing.T) {
	t.Parallel()
	for version, tag := range map[string]string{"1.2.3": "latest", "1.2.3-rc.1": "next"} {
		dir, want := t.TempDir(), ""
		for _, name := range []string{"client", "darwin-arm64", "linux-x64", ""} {
			file := filepath.Join(dir, strings.TrimSuffix("unloop-"+name, "-")+"-"+version+".tgz")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			want += "npm publish --provenance --access public --tag " + tag + " " + file + "\n"
		}
		if out, err := exec.Command("./publish-npm.sh", dir, version, "--dry-run").CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s: %v\n%swant\n%s", version, err, out, want)
		}
	}
	if out, err := exec.Command("./publish-npm.sh", t.TempDir(), "1.2.3", "--dry-run").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("unloop-1.2.3.tgz is not there")) {
		t.Errorf("an empty folder: %v, %s", err, out)
	}
}

// The commands of docs/upgrades.md verify what the workflow signs, under the names that it
// publishes.
func TestWhatIsSignedCanBeVerified(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/upgrades.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(text), "## Verify a release")
	commands, _, _ = strings.Cut(commands, "\n## ")
	var signed string
	for _, job := range workflow(t, "release.yml").Jobs {
		for _, step := range job.Steps {
			if run, ok := step.Exec.(*actionlint.ExecRun); ok {
				signed += run.Run.Value + "\n"
			}
		}
	}
	const bundle = "--new-bundle-format --bundle"
	if !strings.Contains(signed, "cosign sign-blob --yes "+bundle+" dist/release/SHA256SUMS.sigstore.json dist/release/SHA256SUMS\n") ||
		!strings.Contains(commands, bundle+" SHA256SUMS.sigstore.json SHA256SUMS\n") {
		t.Error("checksums are signed and verified in different forms")
	}
	for _, want := range []string{strings.TrimSuffix(strings.TrimPrefix(repository, "git+"), ".git") + "/.github/workflows/release.yml@refs/tags/v$V", "$R/charts/unloop:$V", "oci://$R/charts/unloop --version $V"} {
		if !strings.Contains(commands, want) {
			t.Errorf("docs/upgrades.md has no %s", want)
		}
	}
	for _, m := range regexp.MustCompile(`cosign verify \$BY \$R/([a-z-]+):`).FindAllStringSubmatch(commands, -1) {
		if !slices.ContainsFunc(images, func(i image) bool { return i.name == m[1] }) {
			t.Errorf("there is no image %s", m[1])
		}
	}
	archive := regexp.MustCompile(`gh attestation verify (\S+)`).FindStringSubmatch(commands)
	r := &release{version: "${V}"}
	if len(archive) != 2 || archive[1] != r.archive(target{"linux", "amd64"}) {
		t.Errorf("no archive is verified, but %q", archive)
	}
}

// checkRun expects the targets of make and the scripts of a step to be there.
func checkRun(t *testing.T, where, run, makefile string) {
	t.Helper()
	for _, m := range targets.FindAllStringSubmatch(run, -1) {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("%s: there is no make %s", where, m[1])
		}
	}
	for _, m := range scripts.FindAllStringSubmatch(run, -1) {
		if info, err := os.Stat(filepath.Join("../..", m[1])); err != nil || info.Mode()&0o100 == 0 {
			t.Errorf("%s: %s can't be run: %v", where, m[1], err)
		}
	}
}

// The files that the workflow publishes are those of a release.
func TestWorkflowPublishesWhatAReleaseHas(t *testing.T) {
	t.Parallel()
	dir := releaseDir(t)
	for _, pattern := range []string{"unloop-*-*-*.tgz", "unloop-client-*.tgz", "unloop-1.2.3.tgz", "*.whl", "SHA256SUMS", "docker-bake.json"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) == 0 {
			t.Errorf("a release has no %s", pattern)
		}
	}
	packages, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range packages {
		text, err := exec.Command("tar", "-xzOf", name, "package/package.json").Output()
		if err != nil || !bytes.Contains(text, []byte(`"repository": "`+repository+`"`)) {
			t.Errorf("npm refuses the provenance of %s, which does not name the repository: %v", name, err)
		}
	}
	out, err := exec.Command("./publish-images.sh", filepath.Join(dir, "docker-bake.json"), "registry.example.com/unloop", "--dry-run").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--push --set")) || !bytes.Contains(out, []byte("unloop-gateway.tags=registry.example.com/unloop/unloop-gateway:1.2.3")) {
		t.Errorf("images: %v, %s", err, out)
	}
	out, err = exec.Command("./publish-chart.sh", "1.2.3", "registry.example.com/unloop", "--dry-run").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("helm push unloop-1.2.3.tgz oci://registry.example.com/unloop/charts")) {
		t.Errorf("chart: %v, %s", err, out)
	}
	if out, err := exec.Command("./publish-chart.sh", "v1", "r", "--dry-run").CombinedOutput(); err == nil {
		t.Errorf("a bad version is taken: %s", out)
	}
}
