package reference

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?\n```$")
	dropped = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

// Each relative link of a page leads to a file that exists, and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	reference, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(append(files, reference...), filepath.Join(root, "README.md")) {
		page := read(t, file)
		for _, found := range link.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(found[1], "#")
			target := page
			if path != "" {
				target = read(t, filepath.Join(filepath.Dir(file), path))
			}
			if anchor != "" && !anchors(target)[anchor] {
				t.Errorf("%s: no heading for %s", file, found[1])
			}
		}
	}
}

// read returns a file's text; a folder has none.
func read(t *testing.T, path string) string {
	t.Helper()
	if info, err := os.Stat(path); err != nil {
		t.Error(err)
		return ""
	} else if info.IsDir() {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// answers are questions of docs/README.md by a word of each, with what the linked section says.
var answers = map[string]string{
	"watch?":        "| `pathPrefix` |",
	"caller":        "`X-Session-Id`",
	"without a":     "Without a policy file",
	"budget":        "`budget` per `period`",
	"only watch":    "`mode: shadow`",
	"no loop":       "| you see | change |",
	"batch":         "unloop exempt",
	"stopped agent": "`recursive_loop_detected`",
	"messages link": "--public-url",
	"sees prompts":  "Gateways see requests and keys",
	"NATS is away":  "`failure_mode` decides",
	"request pass":  "unloop policy explain",
}

// A stranger's questions are answered behind one link of docs/README.md.
func TestTwelveQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(root, "docs")
	questions := section(read(t, filepath.Join(folder, "README.md")), "twelve-questions")
	asked := 0
	for line := range strings.SplitSeq(questions, "\n") {
		found := link.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		asked++
		path, anchor, _ := strings.Cut(found[1], "#")
		answered := false
		for word, says := range answers {
			answered = answered || strings.Contains(line, word) && strings.Contains(section(read(t, filepath.Join(folder, path)), anchor), says)
		}
		if !answered {
			t.Errorf("%s: no answer at %s", line, found[1])
		}
	}
	if asked != len(answers) || asked != 12 {
		t.Errorf("%d questions", asked)
	}
}

// section returns the text below the heading of an anchor.
func section(page, anchor string) string {
	var text strings.Builder
	inside, inCode := false, false
	for line := range strings.SplitSeq(page, "\n") {
		inCode = inCode != strings.HasPrefix(line, "```")
		if !inCode && strings.HasPrefix(line, "#") {
			inside = anchors(line)[anchor]
		}
		if inside {
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}

// The README stays what can be read at once: what it is, with a picture, and the ways on.
func TestTheReadmeIsShort(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join(root, "README.md"))
	if n := strings.Count(page, "\n"); n > 150 {
		t.Errorf("%d lines, 150 are allowed", n)
	}
	for _, part := range []string{"](docs/dashboard.png)", "bin/unloop demo", "bin/unloop exec -- ", "bin/unloop up", "make build", "**Clients.**", "## Turn it off", "docs/README.md"} {
		if !strings.Contains(page, part) {
			t.Errorf("it lacks %q", part)
		}
	}
}
