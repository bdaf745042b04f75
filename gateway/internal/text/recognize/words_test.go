package recognize

import "testing"

// Texts are searched for a few short words before they are searched for all names.
func TestEachNameHasOneOfTheWordsThatAreLookedForFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ names, words []string }{
		{summaryMarks[:], summaryWords[:]}, {exitNames[:], exitWords[:]}, {statusNames[:], statusWords[:]},
	} {
		for _, name := range c.names {
			if !containsAny([]byte(name), c.words) {
				t.Errorf("%q has none of %q", name, c.words)
			}
		}
	}
}
