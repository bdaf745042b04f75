package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestDebianPackageInstallsTheCommand(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-deb"); err != nil || runtime.GOOS != "linux" {
		t.Skip("dpkg-deb is not installed")
	}
	deb, root := filepath.Join(releaseDir(t), "unloop_1.2.3_"+runtime.GOARCH+".deb"), t.TempDir()
	fields := must(t, exec.Command("dpkg-deb", "--field", deb))
	for _, want := range []string{"Package: unloop\n", "Version: 1.2.3\n", "Architecture: " + runtime.GOARCH + "\n", "Description: gateway"} {
		if !strings.Contains(fields, want) {
			t.Errorf("no %q in\n%s", want, fields)
		}
	}
	install(t, deb, root)
	wantVersion(t, exec.Command(filepath.Join(root, "usr", "bin", "unloop"), "version"))
	if text, err := os.ReadFile(filepath.Join(root, "usr", "share", "doc", "unloop", "copyright")); err != nil || !strings.Contains(string(text), "Apache License") {
		t.Errorf("copyright: %v", err)
	}
}

// install installs a Debian package into a folder; dpkg itself can do so only as root.
func install(t *testing.T, deb, root string) {
	t.Helper()
	if os.Getuid() != 0 {
		must(t, exec.Command("dpkg-deb", "--extract", deb, root))
		return
	}
	admin := filepath.Join(root, "var", "lib", "dpkg")
	for _, folder := range []string{"info", "updates"} {
		if err := os.MkdirAll(filepath.Join(admin, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(admin, "status"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, exec.Command("dpkg", "--instdir="+root, "--admindir="+admin, "--log="+os.DevNull, "--force-depends", "--force-architecture", "--install", deb))
}

// The C library that a package needs is the newest whose symbols the binary takes.
func TestDebianPackagesNameTheirCLibrary(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("binaries of other systems have another format")
	}
	for binary, want := range map[string]bool{"/bin/sh": true, testStatic(t): false} {
		needs, err := libc(binary)
		if err != nil || strings.HasPrefix(needs, "Depends: libc6 (>= 2.") != want {
			t.Errorf("%s: %q, %v", binary, needs, err)
		}
	}
}

// testStatic builds a program without cgo.
func testStatic(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "static"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	must(t, build)
	return filepath.Join(dir, "static")
}

func TestVersionsOfDebian(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3~rc.1", "0.0.0-dev.9c83b172": "0.0.0~dev.9c83b172"} {
		if got := debVersion(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

func TestFormulaInstallsTheArchive(t *testing.T) {
	t.Parallel()
	ruby, err := exec.LookPath("ruby")
	if err != nil {
		t.Skip("ruby is not installed")
	}
	dir, prefix := releaseDir(t), t.TempDir()
	name := fmt.Sprintf("unloop_1.2.3_%s_%s", runtime.GOOS, runtime.GOARCH)
	unpacked := t.TempDir()
	must(t, exec.Command("tar", "-xzf", filepath.Join(dir, name+".tar.gz"), "-C", unpacked))
	system := map[string]string{"darwin": "macos"}[runtime.GOOS]
	if system == "" {
		system = runtime.GOOS
	}
	printed := must(t, exec.Command(ruby, "testdata/brew.rb", filepath.Join(dir, "unloop.rb"), system, map[string]string{"amd64": "intel", "arm64": "arm"}[runtime.GOARCH],
		filepath.Join(unpacked, name), prefix))
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	url, sum, _ := strings.Cut(strings.TrimSpace(printed), "\n")
	if url != "https://github.com/unloop/unloop/releases/download/v1.2.3/"+name+".tar.gz" || !strings.Contains(string(sums), sum+"  "+name+".tar.gz\n") || sum == "" {
		t.Errorf("the formula has %q of %q", sum, url)
	}
	wantVersion(t, exec.Command(filepath.Join(prefix, "bin", "unloop"), "version"))
}

// The images have the names that the chart gives them, and are targets of the Dockerfile.
func TestImagesAreThoseOfTheChart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(releaseDir(t), "docker-bake.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bake struct {
		Group  map[string]struct{ Targets []string }
		Target map[string]bakeTarget
	}
	if err := json.Unmarshal(text, &bake); err != nil {
		t.Fatal(err)
	}
	dockerfile, err := os.ReadFile("../images/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	values, err := os.ReadFile("../chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart yaml.Node
	if err := yaml.Unmarshal(values, &chart); err != nil {
		t.Fatal(err)
	}
	for _, name := range repositories(&chart) {
		target, known := bake.Target[name]
		if !known || !slices.Contains(bake.Group["default"].Targets, name) || !slices.Equal(target.Tags, []string{"unloop/" + name + ":1.2.3"}) {
			t.Errorf("the chart's image %s is %+v", name, target)
		}
		if !strings.Contains(string(dockerfile), " AS "+target.Target+"\n") {
			t.Errorf("the Dockerfile has no target %q", target.Target)
		}
	}
}

// repositories returns the values of all keys of that name.
func repositories(n *yaml.Node) (all []string) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "repository" {
			all = append(all, child.Value)
		}
		all = append(all, repositories(child)...)
	}
	return all
}

// What is published is compiled once.
func TestOnePlatformIsCompiledOnce(t *testing.T) {
	t.Parallel()
	releaseDir(t)
	log, err := os.ReadFile(compiled)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, "build ") && strings.HasSuffix(line, " ./unloop\n") { // others compile what they need
			n++
		}
	}
	if n != 1 {
		t.Errorf("go build ran %d times", n)
	}
}

func must(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	printed, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, printed)
	}
	return string(printed)
}
