package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestNpmSDKCanBeInstalledAndImported(t *testing.T) {
	t.Parallel()
	node := os.Getenv("UNLOOP_TEST_NODE")
	if node == "" {
		t.Skip("set UNLOOP_TEST_NODE to the path of node")
	}
	project := t.TempDir()
	install := exec.Command(filepath.Join(filepath.Dir(node), "npm"), "install", "--offline", "--no-audit", "--no-fund",
		"--cache", t.TempDir(), "--prefix", project, filepath.Join(releaseDir(t), "unloop-client-1.2.3.tgz"))
	if printed, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, printed)
	}
	script := filepath.Join(project, "use.mjs")
	use := `import { Client } from '@unloop/client'; import { guardTools } from '@unloop/client/ai'; import { hooks } from '@unloop/client/mastra';
import { readFileSync } from 'node:fs';
const manifest = JSON.parse(readFileSync(new URL('./node_modules/@unloop/client/package.json', import.meta.url)));
console.log(manifest.version, typeof Client, typeof guardTools, typeof hooks);`
	if err := os.WriteFile(script, []byte(use), 0o600); err != nil {
		t.Fatal(err)
	}
	printed, err := exec.Command(node, script).CombinedOutput()
	if got := strings.TrimSpace(string(printed)); err != nil || got != "1.2.3 function function function" {
		t.Errorf("%v: %s", err, got)
	}
}

func TestWheelHasTheHashesOfItsFiles(t *testing.T) {
	t.Parallel()
	name := filepath.Join(releaseDir(t), "unloop-1.2.3-py3-none-any.whl")
	wheel, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = wheel.Close() }()
	var lines, recorded string
	for _, f := range wheel.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name == "unloop-1.2.3.dist-info/RECORD" {
			recorded = string(body)
			lines += f.Name + ",,\n"
			continue
		}
		sum := sha256.Sum256(body)
		lines += fmt.Sprintf("%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(body))
	}
	if recorded != lines || !strings.Contains(lines, "unloop/_client.py,") {
		t.Errorf("recorded:\n%swant:\n%s", recorded, lines)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	use := exec.Command(python, "-c", "import unloop; print(unloop.Client.__name__)")
	use.Env = []string{"PYTHONPATH=" + name} // Python imports from zip files
	if printed, err := use.CombinedOutput(); err != nil || string(printed) != "Client\n" {
		t.Errorf("%v: %s", err, printed)
	}
}

func TestVersionsOfPython(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3rc1", "1.2.3-beta2": "1.2.3b2", "0.0.0-dev.9c83b172": "0.0.0.dev0+dev.9c83b172",
	} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
