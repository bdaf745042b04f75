package places

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// edit puts text before a text that a file has once.
type edit struct{ file, before, text string }

// changes are made of what does not exist, one of each kind. The section of
// docs/architecture.md lists the places. That a field of a policy is used in a second place is
// shown by the rule, which takes its threshold from it.
var changes = []struct {
	section string
	edits   []edit
}{
	{"A rule of a finding.", []edit{
		{"schemas/finding/catalogue.go", "\tNothingNew = \"nothing-new\"", "\tMadeUp = \"made-up\"\n"},
		{"schemas/finding/catalogue.go", "\t{\n\t\tDetector: Cycle, Compares: \"rounds of calls, and their results\",", `	{
		Detector: Tool, Rule: MadeUp, Compares: "what a test makes up", Title: "a made-up loop{tools}", Text: "a made-up loop{tools} {n} times",
		Hint: "The {tool} made something up {n} times. {advice}", Advice: useResults,
	},
`},
		{"detector/internal/toolloop/detect.go", "\tif n := s.similarFailures(c); ", "\tif int(e.pure) == p.MadeUp {\n\t\tadd(base, finding.MadeUp, Warn, e.pure, p.MadeUp)\n\t}\n"},
	}},
	{"A field of a policy.", []edit{
		{"schemas/policy/tool.go", "\tGlobalCircuitBreaker int ", "\tMadeUp int `json:\"made_up\" check:\"min=0,max=9\" doc:\"A made-up number.\"`\n"},
	}},
	{"A field of an event.", []edit{
		{"schemas/event/event.go", "\tLoopID   string `json:\"loop_id\"`\n", "\tMadeUp string `json:\"made_up\"`\n"},
		{"schemas/event/event.schema.json", "        \"loop_id\": {", "        \"made_up\": {\"description\": \"What a test makes up.\", \"type\": \"string\"},\n"},
		{"detector/internal/incident/incident.go", "LoopID: loopID, Detector: f.Detector", "MadeUp: f.Detector, "},
	}},
}

// shown are the packages in which what was made up must appear, each with the tests that
// look for it: one that goes through the whole catalogue, and TestMadeUp in testdata, which is
// put into the package.
var shown = map[string]string{
	"schemas/finding":                 "TestKindsAreWhole",
	"schemas/event":                   "TestTheSchemaHasTheFieldsOfAnEvent",
	"schemas/policy":                  "TestMadeUp",
	"gateway/internal/rules/bundle":   "TestMadeUp",
	"gateway/internal/decide/outcome": "TestMessagesSayWhatWasFoundInWords|TestHintsSayWhatWasFoundInWords",
	"detector/internal/evaluate":      "TestMadeUp",
	"detector/internal/incident":      "TestMadeUp",
	"notifier/internal/render":        "TestSummariesSayWhatRepeats",
	"notifier/internal/board":         "TestLoopsAndTheirFindingsHaveTitles|TestMadeUp",
	"notifier/internal/endpoints":     "TestSinks",
	"deploy/unloop/cli":               "TestLoopsAreToldInWords",
}

// A rule of a finding, a field of a policy and a field of an event that do not exist are made
// in at most three files each, which docs/architecture.md lists, and appear everywhere: a copy
// of the sources has them.
func TestWhatIsMadeUpTouchesFewPlacesAndAppearsEverywhere(t *testing.T) {
	t.Parallel()
	edited := map[string]string{}
	for _, c := range changes {
		var files []string
		for _, e := range c.edits {
			edited[e.file] = e.apply(t, edited[e.file])
			files = append(files, e.file)
		}
		slices.Sort(files)
		if files = slices.Compact(files); len(files) > most {
			t.Errorf("%s It touches %d files: %s", c.section, len(files), strings.Join(files, ", "))
		}
		documented(t, c.section, files)
	}
	var tests, packages []string
	for dir, test := range shown {
		tests, packages = append(tests, test), append(packages, "./"+dir)
		if strings.HasSuffix(test, "TestMadeUp") {
			edited[dir+"/madeup_test.go"] = read(t, filepath.Join("testdata", filepath.Base(dir)+"_test.go"))
		}
	}
	out, err := goTest(t, edited, tests, packages)
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if n := strings.Count(out, "ok  \t"); n != len(shown) || strings.Contains(out, "no tests to run") {
		t.Errorf("tests ran in %d packages of %d:\n%s", n, len(shown), out)
	}
}

// apply returns the text of the file with the edit; text is that with earlier edits, "" for
// none.
func (e edit) apply(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		text = read(t, filepath.Join(root, e.file))
	}
	if n := strings.Count(text, e.before); n != 1 {
		t.Fatalf("%s has %d times %q", e.file, n, e.before)
	}
	return strings.Replace(text, e.before, e.text+e.before, 1)
}

// goTest runs tests with some files in the place of those that are there.
func goTest(t *testing.T, files map[string]string, tests, packages []string) (string, error) {
	t.Helper()
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	replace, dir := map[string]string{}, t.TempDir()
	for name, text := range files {
		replace[filepath.Join(tree, name)] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		write(t, replace[filepath.Join(tree, name)], text)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), string(overlay))
	args := []string{"test", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-run", "^(" + strings.Join(tests, "|") + ")$"}
	cmd := exec.CommandContext(t.Context(), "go", append(args, packages...)...)
	cmd.Dir = tree
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
