package formats

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/route"
)

func TestEveryFormatIsFoundByItsName(t *testing.T) {
	t.Parallel()
	for format := route.HTTP; format <= route.Generate; format++ {
		p, listed := All[format]
		if !listed {
			t.Errorf("format %d has no provider", format)
			continue
		}
		if got, known := ByName(p.Name()); !known || got != format {
			t.Errorf("the name %s is of format %d, want %d", p.Name(), got, format)
		}
	}
	if _, known := ByName("morse"); known || len(Names()) != len(All) {
		t.Errorf("names %v", Names())
	}
}
