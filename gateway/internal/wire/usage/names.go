package usage

import (
	"strings"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// count is what a member of a request or an answer counts; several together are a sum of
// them.
type count uint8

const (
	input count = 1 << iota
	cached
	output
	maxOutput
	choices
	prompt
	own    // the answer itself has the member
	within // the member is an object with such members
)

// names are the members that count something, in all formats. objects are the names of the
// objects of an answer that have them.
var names, objects = joined(formats.All)

func joined(all []*provider.Format) (names map[string]count, objects map[string]bool) {
	names, objects = map[string]count{}, map[string]bool{}
	for _, f := range all {
		for _, name := range f.Usage.Objects {
			objects[name] = true
		}
		for counts, members := range map[count][]string{
			input: f.Usage.Input, cached: f.Usage.Cached, output: f.Usage.Output,
			maxOutput: f.Usage.MaxOutput, choices: f.Usage.Answers, prompt: f.Usage.Prompt,
		} {
			for _, name := range members {
				names[name] |= counts
				if len(f.Usage.Objects) == 0 && counts&(input|cached|output) != 0 {
					names[name] |= own
				}
				if outer, _, nested := strings.Cut(name, "."); nested {
					names[outer] |= within
				}
			}
		}
	}
	return names, objects
}

// counted calls f for each member of an object that counts something, by its name.
func counted(w *jsonwalk.Walker, outer string, f func(name string) error) error {
	visit := func(name []byte) error {
		counts := names[outer+string(name)]
		switch {
		case counts&within != 0:
			return counted(w, outer+string(name)+".", f)
		case counts != 0:
			return f(outer + string(name))
		}
		return nil
	}
	if outer == "" {
		return w.Object(visit)
	}
	return w.Members(visit)
}
