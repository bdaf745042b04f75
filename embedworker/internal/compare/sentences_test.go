package compare_test

import (
	"slices"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/compare"
)

// words is a sentence of so many words.
func words(id, n uint32) uint32 { return id<<8 | n }

func TestSentencesRepeat(t *testing.T) {
	t.Parallel()
	a, b, c := words(1, 5), words(2, 5), words(3, 5)
	for name, tt := range map[string]struct {
		newer, older compare.Sentences
		want         bool
	}{
		"identical":           {compare.Sentences{a, b}, compare.Sentences{a, b}, true},
		"one comes again":     {compare.Sentences{a, a, b}, compare.Sentences{a, b}, true},
		"one comes no more":   {compare.Sentences{a, b}, compare.Sentences{a, b, a}, true},
		"one is new":          {compare.Sentences{c, a, b}, compare.Sentences{a, b}, false},
		"one is missing":      {compare.Sentences{a}, compare.Sentences{a, b}, false},
		"one for another":     {compare.Sentences{c, b}, compare.Sentences{a, b}, false},
		"another known one":   {compare.Sentences{b, a, b, c}, compare.Sentences{c, a, b, c}, false},
		"in another order":    {compare.Sentences{b, a}, compare.Sentences{a, b}, false},
		"unknown":             {nil, nil, false},
		"unknown of an older": {compare.Sentences{a}, nil, false},
	} {
		if got := tt.newer.Repeats(tt.older); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func TestOtherItemInTheSameFrame(t *testing.T) {
	t.Parallel()
	frame := compare.Sentences{words(1, 12), words(2, 12)}
	first, second := append(slices.Clone(frame), words(3, 4)), append(slices.Clone(frame), words(4, 4))
	for name, tt := range map[string]struct {
		newer, older compare.Sentences
		want         bool
	}{
		"another item":       {first, second, true},
		"an item more":       {first, frame, false},
		"the same item":      {first, first, false},
		"a short frame":      {compare.Sentences{words(1, 12), words(3, 4)}, compare.Sentences{words(1, 12), words(4, 4)}, false},
		"less frame than it": {append(slices.Clone(frame), words(3, 40)), second, false},
	} {
		if got := tt.newer.OtherItem(tt.older); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func TestATextThatIsTypedGoesOn(t *testing.T) {
	t.Parallel()
	a, b, c, part := words(1, 5), words(2, 5), words(3, 3), words(4, 2)
	for name, tt := range map[string]struct {
		newer, older, beginnings compare.Sentences
		want                     bool
	}{
		"in a sentence":                  {compare.Sentences{a, b}, compare.Sentences{a, part}, compare.Sentences{part}, true},
		"behind one, which is open":      {compare.Sentences{a, c}, compare.Sentences{a}, compare.Sentences{part, c}, true},
		"behind one, which ended":        {compare.Sentences{a, c}, compare.Sentences{a}, compare.Sentences{part}, false},
		"the same, which is open":        {compare.Sentences{a, c}, compare.Sentences{a, c}, compare.Sentences{part, c}, false},
		"another one before":             {compare.Sentences{b, c}, compare.Sentences{a}, compare.Sentences{c}, false},
		"nothing, behind which all goes": {compare.Sentences{a}, nil, compare.Sentences{a}, false},
	} {
		s := compare.Subject{Sentences: tt.newer, Beginnings: tt.beginnings}
		if got := s.Compared(compare.Past{}, tt.older, 0).OtherItem; got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func TestComparisonsChooseTheirEntries(t *testing.T) {
	t.Parallel()
	history := []compare.Past{
		{Similarity: 0.97, SameDetails: true, Digest: 1},
		{Similarity: 0.97, SameDetails: true, Digest: 1},
		{Similarity: 0.92, SameDetails: true, Digest: 2},
		{Similarity: 0.99, SameDetails: true, Digest: 3, OtherItem: true},
		{Similarity: 0.20, Digest: 4, Repeats: true, Identical: true},
	}
	for name, tt := range map[string]struct {
		rule compare.Rule
		want []int
	}{
		"embeddings":           {compare.Rule{Threshold: 0.95}, []int{0, 1}},
		"sentences":            {compare.Rule{Threshold: 0.95, Method: compare.BySentences}, []int{4}},
		"identical ones left":  {compare.Rule{Method: compare.BySentences, LeaveIdentical: true}, nil},
		"own history":          {compare.Rule{Threshold: 0.95, Method: compare.InOwnHistory, Earlier: []uint64{9, 1}}, []int{0}},
		"each as often":        {compare.Rule{Threshold: 0.95, Method: compare.InOwnHistory, Earlier: []uint64{1, 1, 2}}, []int{0, 1}},
		"lower where shown":    {compare.Rule{Threshold: 0.95, Within: 0.90, Earlier: []uint64{2}}, []int{0, 1, 2}},
		"no lower otherwise":   {compare.Rule{Threshold: 0.95, Within: 0.90, Earlier: []uint64{9}}, []int{0, 1}},
		"another item":         {compare.Rule{Threshold: 0.95, Within: 0.90, Earlier: []uint64{1, 2}, Others: []uint64{1}}, []int{2}},
		"nothing shown at all": {compare.Rule{Threshold: 0.95, Within: 0.90}, []int{0, 1, 2}},
		"shows nothing of it":  {compare.Rule{Threshold: 0.95, Method: compare.InOwnHistory}, nil},
	} {
		if got := compare.Decide(history, tt.rule).Matches; !slices.Equal(got, tt.want) {
			t.Errorf("%s: matches %v, want %v", name, got, tt.want)
		}
	}
}

func TestCandidatesAreTheEntriesThatMayMatch(t *testing.T) {
	t.Parallel()
	history := []compare.Past{
		{SameDetails: true, Digest: 1},
		{Digest: 2},
		{SameDetails: true, Digest: 3, OtherItem: true},
		{SameDetails: true, Digest: 4},
	}
	for name, tt := range map[string]struct {
		rule    compare.Rule
		want    []int
		unshown bool
	}{
		"all shown":             {compare.Rule{Earlier: []uint64{1, 2, 3, 4}}, []int{0, 3}, false},
		"one of them before":    {compare.Rule{Earlier: []uint64{1, 2, 3}, Further: []uint64{4}}, []int{0, 3}, false},
		"one not shown":         {compare.Rule{Earlier: []uint64{1, 3, 4}}, []int{0, 3}, true},
		"its own history":       {compare.Rule{Method: compare.InOwnHistory, Earlier: []uint64{1, 2}}, []int{0}, false},
		"what came before that": {compare.Rule{Method: compare.InOwnHistory, Earlier: []uint64{2}, Further: []uint64{1}}, nil, false},
	} {
		if got, unshown := tt.rule.Candidates(history); !slices.Equal(got, tt.want) || unshown != tt.unshown {
			t.Errorf("%s: %v, unshown %t; want %v, %t", name, got, unshown, tt.want, tt.unshown)
		}
	}
}
