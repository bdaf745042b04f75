package message

import (
	"fmt"
	"testing"

	"github.com/unloop/unloop/schemas/fingerprint"
)

func text(s string) Part { return Part{Kind: Text, Value: fmt.Appendf(nil, "%q", s)} }

func inside(p Part) Part {
	p.Inside = true
	return p
}

func TestMessagesOfResultsAloneAreATools(t *testing.T) {
	t.Parallel()
	result, content := Part{Kind: Result}, inside(text("x"))
	for i, c := range []struct {
		role  Role
		parts []Part
		want  Role
	}{
		{User, nil, User},
		{User, []Part{text("x")}, User},
		{User, []Part{result, content}, Tool},
		{User, []Part{result, content, {Kind: Field}}, Tool},
		{User, []Part{result, content, text("y")}, User},
		{Assistant, []Part{result}, Assistant},
		{Tool, nil, Tool},
	} {
		if got := Effective(c.role, c.parts); got != c.want {
			t.Errorf("case %d: role %d, want %d", i, got, c.want)
		}
	}
}

// other returns a part that is no text.
func other(json string) Part { return Part{Kind: Other, Value: []byte(json)} }

func TestMessagesThatSayTheSameHaveTheSameDigests(t *testing.T) {
	t.Parallel()
	call := func(id, args string) Part {
		return Part{Kind: Call, ID: []byte(id), Name: []byte("f"), Value: []byte(args)}
	}
	var d Digester
	for name, c := range map[string]struct {
		a, b         []Part
		strict, text bool
	}{
		"ids of calls":            {[]Part{call("a", `{"x":1}`)}, []Part{call("b", `{"x":1.0}`)}, true, true},
		"arguments as a string":   {[]Part{call("a", `{"x":1}`)}, []Part{call("a", `"{\"x\":1}"`)}, true, true},
		"a call that is known":    {[]Part{call("a", `{"x":1}`)}, []Part{{Kind: Call, Known: &ToolCall{Key: d.Call(&Part{Name: []byte("f"), Value: []byte(`{"x":1}`)})}}}, true, true},
		"other arguments":         {[]Part{call("a", `{"x":1}`)}, []Part{call("a", `{"x":2}`)}, false, true},
		"members that change":     {[]Part{other(`{"id":"1","u":2}`)}, []Part{other(`{"u":2,"signature":"s"}`)}, true, true},
		"another image":           {[]Part{other(`{"u":1}`)}, []Part{other(`{"u":2}`)}, false, false},
		"an id alone":             {[]Part{other(`{"type":"x","id":"1"}`)}, []Part{other(`{"type":"x","id":"2"}`)}, false, false},
		"a signed URL":            {[]Part{other(`{"u":{"url":"https://x.org/a.png?v=1&X-Amz-Signature=1\u0026X-Amz-Date=2"},"t":"\"?"}`)}, []Part{other(`{"t":"\"?","u":{"url":"https:\/\/x.org/a.png?X-Amz-Signature=3&v=1"}}`)}, true, true},
		"the URL of another file": {[]Part{other(`{"u":"https://x.org/a.png?sig=1"}`)}, []Part{other(`{"u":"https://x.org/b.png?sig=1"}`)}, false, false},
		"no object":               {[]Part{other(`[1]`)}, []Part{other(`[1.0]`)}, true, true},
		"what is no JSON":         {[]Part{other(`{x`)}, []Part{other(`{x`)}, true, true},
		"other broken JSON":       {[]Part{other(`[x`)}, []Part{other(`[y`)}, false, false},
		"fields in another order": {[]Part{{Kind: Field, Name: []byte("a")}, {Kind: Field, Name: []byte("b")}}, []Part{{Kind: Field, Name: []byte("b")}, {Kind: Field, Name: []byte("a")}}, true, true},
		"texts that are joined":   {[]Part{text("a b")}, []Part{text("a"), text("b")}, true, true},
		"another text":            {[]Part{text("a")}, []Part{text("b")}, false, false},
		"a failed result":         {[]Part{{Kind: Result}, inside(text("a"))}, []Part{{Kind: Result, Failed: true}, inside(text("a"))}, false, true},
		"an image in a result":    {[]Part{{Kind: Result}, inside(text("a"))}, []Part{{Kind: Result}, inside(text("a")), inside(other(`1`))}, false, false},
		"a result of two lines":   {[]Part{{Kind: Result}, inside(text("a\nb"))}, []Part{{Kind: Result}, inside(text("a")), inside(text("b"))}, true, false},
	} {
		a, b := d.Message(Assistant, c.a), d.Message(Assistant, c.b)
		if (a.Strict == b.Strict) != c.strict || (a.Text == b.Text) != c.text {
			t.Errorf("%s: strict %v, text %v", name, a.Strict == b.Strict, a.Text == b.Text)
		}
	}
	if d.Message(User, []Part{text("a")}).Strict == d.Message(Assistant, []Part{text("a")}).Strict {
		t.Error("roles make no difference")
	}
}

func TestRemindersAreNoHumanWords(t *testing.T) {
	t.Parallel()
	const reminder = "<system-reminder>r</system-reminder>"
	var d Digester
	for name, c := range map[string]struct {
		parts []Part
		text  string
		human bool
	}{
		"words":           {[]Part{text("a"), text("b")}, "a b", true},
		"beside reminder": {[]Part{text(reminder), text("a"), text(" ")}, "a", true},
		"reminder alone":  {[]Part{text(reminder)}, "", false},
		"an image":        {[]Part{other(`1`)}, "", true},
		"a result":        {[]Part{{Kind: Result}, inside(text("x")), text("a")}, "a", false},
		"nothing":         {nil, "", false},
	} {
		got, digest, human := d.Human(c.parts)
		if string(got) != c.text || human != c.human || human && digest.IsZero() {
			t.Errorf("%s: %q, %v", name, got, human)
		}
	}
	_, plain, _ := d.Human([]Part{text("a")})
	if _, beside, _ := d.Human([]Part{text(reminder), text("a")}); plain != beside {
		t.Error("a reminder changes the digest")
	}
	if _, image, _ := d.Human([]Part{text("a"), other(`1`)}); plain == image {
		t.Error("an image makes no difference")
	}
}

func TestCallIDsDiffer(t *testing.T) {
	t.Parallel()
	if CallID([]byte("a")) == CallID([]byte("b")) || CallID([]byte("a")) == (fingerprint.Digest{}) {
		t.Error("two ids have one digest")
	}
}
