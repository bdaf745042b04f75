package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// toolModules is the folder of modules that each pin a tool. Nothing else imports them.
const toolModules = "deploy/tools/"

// requirement matches a line of a go.mod file that requires a version of a module.
var requirement = regexp.MustCompile(`^(?:require)?\s+(\S+\.\S+/\S+|\S+\.\S+) (v\S+)`)

// requirements are the versions that go.mod files require, by module.
type requirements map[string][]required

type required struct {
	version, file string
	line          int
}

// add adds the requirements of one file.
func (r requirements) add(file string, text []byte) {
	if strings.HasPrefix(file, toolModules) {
		return
	}
	for i, line := range strings.Split(string(text), "\n") {
		if m := requirement.FindStringSubmatch(line); m != nil {
			r[m[1]] = append(r[m[1]], required{m[2], file, i + 1})
		}
	}
}

// check returns the requirements that differ from the first one of the same module. With two
// versions, everything that imports the module is compiled twice, and one module tests other
// code than another runs.
func (r requirements) check() []finding {
	var found []finding
	for _, module := range slices.Sorted(maps.Keys(r)) {
		first := r[module][0]
		for _, one := range r[module][1:] {
			if one.version != first.version {
				found = append(found, finding{one.file, one.line, fmt.Sprintf(
					"%s has version %s here, but %s in %s: run go work sync, and then go mod tidy in each module", module, one.version, first.version, first.file)})
			}
		}
	}
	return found
}
