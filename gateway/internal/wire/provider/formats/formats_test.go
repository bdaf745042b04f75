package formats

import "testing"

func TestEveryFormatIsFoundByItsName(t *testing.T) {
	t.Parallel()
	for _, f := range All {
		if got, known := ByName(f.Name()); !known || got != f || !got.Prompt() {
			t.Errorf("the name %s is of %v", f.Name(), got)
		}
	}
	for _, u := range Upstreams {
		if u.Other == nil {
			continue
		}
		if got, known := ByName(u.Other.Name()); !known || got != u.Other || got.Prompt() {
			t.Errorf("the name %s is of %v", u.Other.Name(), got)
		}
	}
	if _, known := ByName("morse"); known || HTTP.Prompt() {
		t.Errorf("names %v", Names())
	}
}
