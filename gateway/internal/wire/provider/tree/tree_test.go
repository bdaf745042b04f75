package tree_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// at returns the place of a piece of a body.
func at(body, piece string) splice.Place {
	from := strings.Index(body, piece)
	if piece == "" || from < 0 {
		return splice.Place{}
	}
	return splice.Place{From: from, To: from + len(piece)}
}

func TestHintsAreAddedAtTheirPlaces(t *testing.T) {
	t.Parallel()
	const all = `{"s":"old","n":null,"l":[ "a" ],"o":{},"e":""}`
	appended := func(p *tree.Tree) ([]byte, error) { return p.Append("text", "stop") }
	prepended := func(p *tree.Tree) ([]byte, error) { return p.Prepend("text", "stop") }
	instructed := func(p *tree.Tree) ([]byte, error) { return p.Instruct("system", "stop") }
	for name, c := range map[string]struct {
		edit        func(*tree.Tree) ([]byte, error)
		piece, want string
	}{
		"append to a string":             {appended, `"old"`, `"old\n\nstop"`},
		"append to an empty string":      {appended, `""`, `"stop"`},
		"append to a list":               {appended, `[ "a" ]`, `[ "a" ,{"type":"text","text":"stop"}]`},
		"append to null":                 {appended, `null`, ""},
		"append to nothing":              {appended, "", ""},
		"prepend to a string":            {prepended, `"old"`, `"stop\n\nold"`},
		"prepend to a list":              {prepended, `[ "a" ]`, `[{"type":"text","text":"stop"}, "a" ]`},
		"prepend to null":                {prepended, `null`, `"stop"`},
		"prepend to an object":           {prepended, `{}`, ""},
		"instructions in a string":       {instructed, `"old"`, `"stop\n\nold"`},
		"instructions in the place of 0": {instructed, `null`, `"stop"`},
		"instructions in a list":         {instructed, `[ "a" ]`, ""},
	} {
		p := at(all, c.piece)
		located := tree.Tree{Body: []byte(all), Newest: p, Leading: p, Places: tree.Places{System: p}}
		got, err := c.edit(&located)
		if c.want == "" {
			if !errors.Is(err, tree.ErrNoPlace) {
				t.Errorf("%s: %s, %v", name, got, err)
			}
			continue
		}
		if want := strings.Replace(all, c.piece, c.want, 1); string(got) != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	body := `{"x":1}`
	located := tree.Tree{Body: []byte(body), Places: tree.Places{Object: at(body, body)}}
	if got, err := located.Instruct("system", "stop"); string(got) != `{"system":"stop","x":1}` || err != nil {
		t.Errorf("instructions that are not there: %s, %v", got, err)
	}
}

func TestTheRequestAndItsListAreLocated(t *testing.T) {
	t.Parallel()
	for body, list := range map[string]string{`{"list":[ 1 ]}`: "[ 1 ]", `{"list":[]}`: "[]", `{"list":"x"}`: "", `{"list":null}`: "", `{}`: ""} {
		var p tree.Places
		err := p.Read([]byte(" "+body+" "), func(w *jsonwalk.Walker) error {
			return w.Object(func([]byte) error { return p.ReadList(w, w.Skip) })
		})
		if err != nil || p.Object != at(" "+body, body) || p.List != at(" "+body, list) {
			t.Errorf("%s: %+v, %v", body, p, err)
		}
	}
}

func TestTheNewestAndTheLeadingContentAreFound(t *testing.T) {
	t.Parallel()
	place := func(n int) splice.Place { return splice.Place{From: n, To: n + 1} }
	located := tree.Tree{}
	for i, speaker := range []message.Role{message.System, message.User, message.Assistant, message.Tool, message.System, message.Assistant} {
		located.End(tree.Message{Speaker: speaker, Content: place(i + 1)})
	}
	if located.Leading != place(1) || located.Newest != place(4) {
		t.Errorf("leading %v, newest %v", located.Leading, located.Newest)
	}
	later := tree.Tree{}
	later.End(tree.Message{Speaker: message.User})
	later.End(tree.Message{Speaker: message.System, Content: place(1)})
	if later.Leading.Found() || later.Newest.Found() {
		t.Errorf("leading %v, newest %v", later.Leading, later.Newest)
	}
}

// history locates messages that are written as in "[A:xc,U:r]": a role, and blocks
// that are texts (t), calls (c) or results (r) of one id.
func history(body string) *tree.Tree {
	located := &tree.Tree{Body: []byte(body), Places: tree.Places{List: splice.Place{From: 0, To: len(body)}}}
	from := 1
	for m := range strings.SplitSeq(strings.Trim(body, "[]"), ",") {
		place := splice.Place{From: from, To: from + len(m)}
		for i, kind := range m[2:] {
			b := repair.Block{ID: "1", Kind: map[rune]repair.Kind{'t': repair.Text, 'c': repair.Call, 'r': repair.Result}[kind]}
			b.Raw = located.Body[from+2+i : from+3+i]
			located.Block(b)
		}
		role := map[byte]repair.Role{'A': repair.Assistant, 'U': repair.User}[m[0]]
		located.End(tree.Message{Role: role, Place: place, Content: splice.Place{From: from + 2, To: place.To}})
		from = place.To + 1
	}
	return located
}

func TestHistoriesAreRepairedInBothForms(t *testing.T) {
	t.Parallel()
	lost := func(id string) []byte { return []byte("L" + id) }
	joined := &tree.Format{Rules: repair.Rules{Joined: true}, Content: "content", Lost: lost}
	apart := &tree.Format{Content: "content", Lost: lost}
	for name, c := range map[string]struct {
		format     *tree.Format
		body, want string
	}{
		"sound":                        {joined, `[U:t,A:c,U:r]`, `[U:t,A:c,U:r]`},
		"an orphan":                    {joined, `[U:t,A:t,U:rt]`, `[U:t,A:t,U:[t]]`},
		"a lost result":                {joined, `[U:t,A:c,U:t]`, `[U:t,A:c,U:[L1,t]]`},
		"a lost result at the end":     {joined, `[U:t,A:tc]`, `[U:t,A:tc,{"role":"user","content":[L1]}]`},
		"calls beside, lost":           {apart, `[U:t,A:tc]`, `[U:t,A:tc,L1]`},
		"calls beside, and one rescue": {apart, `[U:t,A:cr]`, `[U:t,A:null,r]`},
		"calls beside, with a text":    {apart, `[U:t,A:ctr]`, `[U:t,A:[t],r]`},
	} {
		got, report, err := history(c.body).Repair(c.format)
		if string(got) != c.want || report.Changed() != (c.body != c.want) || err != nil {
			t.Errorf("%s: %s, %v, %v; want %s", name, got, report, err, c.want)
		}
	}
}

func TestBlocksOfAMessageWithoutContentGetTheMember(t *testing.T) {
	t.Parallel()
	const body = `[{"calls":1},{}]`
	located := &tree.Tree{Body: []byte(body), Places: tree.Places{List: at(body, body)}}
	located.Block(repair.Block{Kind: repair.Call, ID: "1", Raw: []byte("c")})
	located.End(tree.Message{Role: repair.Assistant, Place: at(body, `{"calls":1}`)})
	located.End(tree.Message{Role: repair.User, Place: at(body, `{}`), Sealed: true})
	got, _, err := located.Repair(&tree.Format{Rules: repair.Rules{Joined: true}, Content: "parts", Lost: func(string) []byte { return []byte("L") }})
	if want := `[{"calls":1},{"parts":[L]}]`; string(got) != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestAHistoryThatIsNotUnderstoodStays(t *testing.T) {
	t.Parallel()
	fault := errors.New("strange")
	located := history(`[U:r,A:t]`)
	located.Fault = fault
	if got, report, err := located.Repair(&tree.Format{}); string(got) != `[U:r,A:t]` || report.Changed() || !errors.Is(err, fault) {
		t.Errorf("%s, %v, %v", got, report, err)
	}
	located = history(`[U:r,A:t]`)
	located.List = splice.Place{}
	if got, report, err := located.Repair(&tree.Format{}); string(got) != `[U:r,A:t]` || report.Changed() || err != nil {
		t.Errorf("without a list: %s, %v, %v", got, report, err)
	}
}
