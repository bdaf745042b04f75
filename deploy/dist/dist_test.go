package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// released says that the binaries are those of a release. Else they are compiled as the tests
// are, which takes a tenth of the time.
var released = os.Getenv("UNLOOP_TEST_RELEASE") != ""

// built is a release for this machine's platform, which the tests share.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "unloop-dist-test")
	if err != nil {
		return "", err
	}
	if err := countBuilds(dir + "-go"); err != nil {
		return dir, err
	}
	return dir, run(context.Background(), []string{"-out", dir, "-version", "v1.2.3", "-targets", runtime.GOOS + "/" + runtime.GOARCH, fmt.Sprint("-trimpath=", released)}, io.Discard)
})

// compiled is where each use of the go command is noted, with its arguments.
var compiled string

// countBuilds has a script stand before the go command.
func countBuilds(dir string) error {
	real, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	compiled = filepath.Join(dir, "log")
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>'%s'\nexec '%s' \"$@\"\n", compiled, real)
	return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700), os.Setenv("PATH", dir+":"+os.Getenv("PATH")))
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		_ = os.RemoveAll(dir)
		_ = os.RemoveAll(dir + "-go")
	}
	os.Exit(code)
}

func releaseDir(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func here() target { return target{runtime.GOOS, runtime.GOARCH} }

func TestArchiveHasTheCommandItsLicencesAndItsMaterials(t *testing.T) {
	t.Parallel()
	dir := releaseDir(t)
	folder := fmt.Sprintf("unloop_1.2.3_%s_%s", runtime.GOOS, runtime.GOARCH)
	files := untar(t, filepath.Join(dir, folder+".tar.gz"))
	for name, want := range map[string]string{
		"LICENSE":                  "Apache License",
		"README.md":                "# Unloop",
		"THIRD_PARTY_LICENSES.txt": "==== github.com/nats-io/nats.go ",
		"BUILDINFO.txt":            "build\tGOOS=" + runtime.GOOS,
	} {
		if !strings.Contains(string(files[folder+"/"+name]), want) {
			t.Errorf("%s of the archive does not contain %q", name, want)
		}
	}
	if trimmed := strings.Contains(string(files[folder+"/BUILDINFO.txt"]), "build\t-trimpath=true"); trimmed != released {
		t.Errorf("paths are left out of the binary: %v, want %v", trimmed, released)
	}
	var bom struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Purl string }
	}
	if err := json.Unmarshal(files[folder+"/unloop.cdx.json"], &bom); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range bom.Components {
		found = found || strings.HasPrefix(c.Purl, "pkg:golang/github.com/nats-io/nats-server/v2@v2.")
	}
	if bom.BOMFormat != "CycloneDX" || !found {
		t.Errorf("the bill of materials is %q with %d components, without the NATS server", bom.BOMFormat, len(bom.Components))
	}
	command := filepath.Join(t.TempDir(), "unloop")
	if err := os.WriteFile(command, files[folder+"/unloop"], 0o755); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, exec.Command(command, "version"))
}

func TestChecksumsAreThoseOfAllFiles(t *testing.T) {
	t.Parallel()
	dir := releaseDir(t)
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "SHA256SUMS" {
			continue
		}
		result, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(sums), fmt.Sprintf("%x  %s\n", sha256.Sum256(result), entry.Name())) {
			t.Errorf("SHA256SUMS does not have %s", entry.Name())
		}
	}
}

func TestNpmPackageStartsTheBinary(t *testing.T) {
	t.Parallel()
	node := os.Getenv("UNLOOP_TEST_NODE")
	if node == "" {
		t.Skip("set UNLOOP_TEST_NODE to the path of node")
	}
	dir, project := releaseDir(t), t.TempDir()
	install := exec.Command(filepath.Join(filepath.Dir(node), "npm"), "install", "--offline", "--no-audit", "--no-fund",
		"--cache", t.TempDir(), "--prefix", project,
		filepath.Join(dir, "unloop-1.2.3.tgz"),
		filepath.Join(dir, fmt.Sprintf("unloop-%s-%s-1.2.3.tgz", here().npmOS(), here().npmCPU())))
	if printed, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, printed)
	}
	command := filepath.Join(project, "node_modules", ".bin", "unloop")
	wantVersion(t, exec.Command(command, "version"))
	npx := exec.Command(filepath.Join(filepath.Dir(node), "npx"), "--offline", "unloop", "version")
	npx.Dir = project
	wantVersion(t, npx)
	var failed *exec.ExitError
	if err := exec.Command(command, "no-such-command").Run(); !errors.As(err, &failed) || failed.ExitCode() != 2 {
		t.Errorf("the exit code of the binary does not pass: %v", err)
	}
}

func TestMissingPlatformPackageIsNamed(t *testing.T) {
	t.Parallel()
	node := os.Getenv("UNLOOP_TEST_NODE")
	if node == "" {
		t.Skip("set UNLOOP_TEST_NODE to the path of node")
	}
	alone := filepath.Join(t.TempDir(), "launch.js")
	if err := os.WriteFile(alone, launcher, 0o755); err != nil {
		t.Fatal(err)
	}
	printed, err := exec.Command(node, alone, "version").CombinedOutput()
	if err == nil || !strings.Contains(string(printed), platformPackage(here())+" is not installed") {
		t.Errorf("error %v, printed %q", err, printed)
	}
}

func TestUnknownTargetIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := parseTargets("linux/amd64,plan9/386"); err == nil || !strings.Contains(err.Error(), `"plan9/386"`) {
		t.Errorf("error %v", err)
	}
}

func TestBinaryOfAnotherPlatformIsRefused(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := target{"windows", "arm64"}
	if _, err := inspect(other, self); err == nil || !strings.Contains(err.Error(), here().String()) {
		t.Errorf("error %v", err)
	}
}

func wantVersion(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	printed, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(printed), "1.2.3") {
		t.Errorf("%s: %v, printed %q", cmd, err, printed)
	}
}

func untar(t *testing.T, name string) map[string][]byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}
