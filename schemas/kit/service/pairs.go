package service

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// Pairs are the values NAME=SCHEME:REST of a repeatable flag, by name. One value, such as
// that of an environment variable, may hold several, separated by white space, commas or
// semicolons.
type Pairs map[string]string

// pairStart matches the beginning of a pair: its name and the scheme of its value.
var pairStart = regexp.MustCompile(`(?:^|[\s,;])[\s,;]*([^\s,;=]+=[a-z]+:)`)

// Decode adds the pairs of one value of the flag. Kong calls it.
func (p *Pairs) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("NAME=VALUE", &text); err != nil {
		return err
	}
	added, err := splitPairs(text)
	if err != nil {
		return err
	}
	if *p == nil {
		*p = Pairs{}
	}
	maps.Copy(*p, added)
	return nil
}

// splitPairs returns the pairs in a text. The error quotes no value, which may contain a
// password.
func splitPairs(text string) (Pairs, error) {
	found := Pairs{}
	starts := pairStart.FindAllStringSubmatchIndex(text, -1)
	if len(starts) == 0 || starts[0][0] > 0 {
		starts = append([][]int{{0, 0, 0, 0}}, starts...) // what has no scheme
	}
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		pair := strings.Trim(text[start[2]:end], " \t\r\n,;")
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("value %d has no name: expected NAME=VALUE", i+1)
		}
		if _, twice := found[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		found[name] = value
	}
	return found, nil
}
