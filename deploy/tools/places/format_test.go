package places

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	formatsFolder = "gateway/internal/wire/provider/"
	formatsFile   = formatsFolder + "formats/formats.go"
)

// The names of a format and of its upstreams stand in its folder, and in hardly any other
// file of production code.
func TestAFormatTouchesFewPlaces(t *testing.T) {
	t.Parallel()
	all := sources(t)
	named, seen := regexp.MustCompile(`(?:Name: +|Name\(\) string \{ return )"([a-z]+(?:-[a-z]+)?)"`), 0
	for path, source := range all {
		if !strings.HasPrefix(path, formatsFolder) || strings.Contains(path, "/plain/") {
			continue
		}
		folder := filepath.ToSlash(filepath.Dir(path)) + "/"
		for _, m := range named.FindAllStringSubmatch(source, -1) {
			seen++
			files := slices.DeleteFunc(naming(all, `"`+m[1]+`"`), func(f string) bool { return strings.HasPrefix(f, folder) })
			if len(files) > most {
				t.Errorf("%s of %s is named in %d other files: %s", m[1], folder, len(files), strings.Join(files, ", "))
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d names of formats and upstreams were found", seen)
	}
	documented(t, "A wire format.", []string{formatsFile})
}

// A made-up format, which is a folder and a line of formats.go, is routed, read, hinted,
// refused, counted and scanned like all others.
func TestAMadeUpFormatIsItsFolderAndOneLine(t *testing.T) {
	t.Parallel()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(top, formatsFile))
	if err != nil {
		t.Fatal(err)
	}
	const before, imported = "\tollama.Format,\n", "import (\n"
	added := strings.Replace(string(text), before, before+"\tmorse.Format,\n", 1)
	added = strings.Replace(added, imported, imported+"\t\"github.com/unloop/unloop/"+formatsFolder+"morse\"\n", 1)
	file := filepath.Join(t.TempDir(), "formats.go")
	if err := os.WriteFile(file, []byte(added), 0o600); err != nil {
		t.Fatal(err)
	}
	madeUp := filepath.Join(top, "deploy/tools/places/testdata/morse")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(top, formatsFile):                     file,
		filepath.Join(top, formatsFolder, "morse/morse.go"): filepath.Join(madeUp, "morse.go.txt"),
		filepath.Join(top, "gateway/madeup_test.go"):        filepath.Join(madeUp, "gateway_test.go.txt"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", list, "-vet", "off", "-run", "^TestMadeUpFormatIsKnownEverywhere$", "-v", ".")
	cmd.Dir = filepath.Join(top, "gateway")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestMadeUpFormatIsKnownEverywhere") {
		t.Errorf("%v\n%s", err, out)
	}
}
