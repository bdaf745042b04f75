package reference

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/deploy/unloop/cli"
)

// usages finds command lines of unloop in code, up to what ends them.
var usages = regexp.MustCompile("(?m)(?:^[ $]*|`|[;=] |up, )(?:bin/)?unloop ([a-z][^`#\n|&;]*)")

// Each command, subcommand and flag that the guides show exists.
func TestTheGuidesUseCommandsThatExist(t *testing.T) {
	t.Parallel()
	model, err := cli.Model()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		for _, line := range usages.FindAllStringSubmatch(strings.ReplaceAll(read(t, file), "\\\n", " "), -1) {
			n++
			if fault := unknown(model.Node, strings.Fields(line[1])); fault != "" {
				t.Errorf("%s: unloop %s: there is no %s", file, line[1], fault)
			}
		}
	}
	if n < 100 {
		t.Errorf("the guides show only %d commands", n)
	}
}

// unknown returns the first word of a command line that the model does not have.
func unknown(node *kong.Node, words []string) string {
	for _, word := range words {
		word = strings.Trim(word, ".,:)(")
		name, isFlag := strings.CutPrefix(word, "--")
		switch name, _, _ = strings.Cut(name, "="); {
		case word == "--":
			return ""
		case isFlag && !hasFlag(node, name):
			return word
		case isFlag || !regexp.MustCompile(`^[a-z-]+$`).MatchString(word):
			continue
		}
		if child := childNamed(node, word); child != nil {
			node = child
		} else if node.Type == kong.ApplicationNode {
			return word
		}
	}
	return ""
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// hasFlag reports whether a command, or a subcommand that may follow, has a flag.
func hasFlag(node *kong.Node, name string) bool {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name || f.Name == strings.TrimPrefix(name, "no-") {
				return true
			}
		}
	}
	for _, child := range node.Children {
		if hasFlag(child, name) {
			return true
		}
	}
	return false
}
