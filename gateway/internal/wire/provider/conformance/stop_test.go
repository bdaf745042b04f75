package conformance

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// A client that leaves stops the reading of its request, wherever that is.
func TestNothingIsReadForAClientThatLeft(t *testing.T) {
	t.Parallel()
	const rounds = 40
	for _, p := range all {
		c := Fixing()
		for range rounds {
			c.Turns = append(c.Turns, Fixing().Turns[1:]...)
		}
		body := Formats[p.Name()](c)
		read := func(atMost int) (items, asked int) {
			prompt, err := p.Parse(body, provider.Options{Tail: 3, Items: 2 * rounds, Stop: func() bool { asked++; return asked > atMost }})
			if err != nil {
				t.Fatal(err)
			}
			list, _ := prompt.Transcript.History(provider.Rules{})
			return len(list), asked
		}
		whole, all := read(1 << 20)
		for left := range all {
			if items, asked := read(left); items >= whole || asked > left+3 {
				t.Errorf("%s: %d of %d items, and asked %d times after the client left", p.Name(), items, whole, asked-left)
			}
		}
	}
}
