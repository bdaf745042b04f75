package places

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

// most is the number of places that a new thing may touch.
const most = 3

const root = "../../.."

// sources are the files of production code by path, without those that are generated.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "node_modules" || name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && len(name) > 2):
			return fs.SkipDir
		case strings.HasSuffix(name, "_test.go") || !slices.Contains([]string{".go", ".js", ".proto"}, filepath.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text[:min(len(text), 1000)]), "DO NOT EDIT") {
			return err
		}
		path, err = filepath.Rel(root, path)
		found[filepath.ToSlash(path)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// naming returns the files that contain one of the texts, sorted.
func naming(sources map[string]string, texts ...string) (files []string) {
	for path, source := range sources {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(source, text) }) {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files
}

// documented fails for a file that a section of docs/architecture.md does not name.
func documented(t *testing.T, heading string, files []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "**"+heading+"**")
	section, _, _ = strings.Cut(section, "\n\n")
	for _, f := range files {
		if !strings.Contains(section, "`"+f+"`") {
			t.Errorf("docs/architecture.md, %q: does not name %s", heading, f)
		}
	}
}

// A rule's name, and the constant for it, stand in few files. That what is said of a rule
// appears everywhere is tested where it is said, for each rule of the catalogue.
func TestARuleOfAFindingTouchesFewPlaces(t *testing.T) {
	t.Parallel()
	all, constants := sources(t), regexp.MustCompile(`(?m)^\t(\w+) += "([a-z-]+)"$`)
	names := map[string]string{}
	for _, m := range constants.FindAllStringSubmatch(all["schemas/finding/catalogue.go"], -1) {
		names[m[2]] = m[1]
	}
	var union []string
	for _, k := range finding.Catalogue() {
		if k.Detector != finding.Tool && k.Detector != finding.Cycle || k.Rule == "" {
			continue
		}
		name := names[k.Rule]
		files := naming(all, "Rule: "+name+",", "Rule = finding."+name+" ", "toolloop."+name+",", "toolloop."+name+":", ", "+name+", ")
		if len(files) > most {
			t.Errorf("the rule %s is named in %d files: %s", k.Rule, len(files), strings.Join(files, ", "))
		}
		union = append(union, files...)
	}
	slices.Sort(union)
	documented(t, "A rule of a finding.", slices.Compact(union))
}

// The name of a policy's field stands in one file, in which all that is known of the field
// stands beside it; schemas/policy tests that a field which is added there is read, checked,
// described and sent.
func TestAFieldOfAPolicyHasOnePlace(t *testing.T) {
	t.Parallel()
	all := sources(t)
	var defined []string
	shared := []string{ // names that other things have, too
		"enabled", "action", "scope", "window", "threshold", "window_seconds", "cooldown_seconds", "similarity", "fingerprint", "history_size", "ttl_seconds", "repeats",
	}
	for _, block := range []any{policy.LoopDetection{}, policy.Prompt{}, policy.Tool{}, policy.Cycle{}, policy.Semantic{}} {
		for field := range reflect.TypeOf(block).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			files := naming(all, `json:"`+name+`"`, `json:"`+name+`,`, " "+name+" = ")
			if len(files) > most && !slices.Contains(shared, name) {
				t.Errorf("%s is defined in %d files: %s", name, len(files), strings.Join(files, ", "))
			}
			defined = append(defined, naming(all, "type "+reflect.TypeOf(block).Name()+" struct {\n\tEnabled")...)
		}
	}
	slices.Sort(defined)
	documented(t, "A field of a policy.", slices.Compact(defined))
}

// Agent Sentinel's socket, whose worker reads no policy, compares as the semantic detector
// does by default.
func TestTheSocketHasTheDefaultsOfPolicies(t *testing.T) {
	t.Parallel()
	socket, detector := embedworker.DefaultConfig(), policy.DefaultSemantic()
	if socket.SentinelThreshold != detector.Threshold || socket.SentinelHistory != detector.HistorySize || socket.SentinelTTL != strconv.Itoa(detector.TTLSeconds) {
		t.Errorf("the socket compares by %g, %d and %s s; policies by %+v", socket.SentinelThreshold, socket.SentinelHistory, socket.SentinelTTL, detector)
	}
}
