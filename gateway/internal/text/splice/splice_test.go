package splice_test

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
)

// member finds the value of the member "x" and the object itself.
func member(t *testing.T, text string) (x, object splice.Place) {
	t.Helper()
	err := jsonwalk.Text([]byte(text), func(w *jsonwalk.Walker) error {
		object.From = w.Offset()
		err := w.Object(func(name []byte) (err error) {
			if string(name) == "x" {
				x, err = splice.Value(w)
			}
			return err
		})
		object.To = w.Offset()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return x, object
}

func TestOneValueChanges(t *testing.T) {
	t.Parallel()
	prepend := func(b []byte, p, _ splice.Place) []byte { return splice.PrependText(b, p, "a\"\n") }
	appendText := func(b []byte, p, _ splice.Place) []byte { return splice.AppendText(b, p, "\xff") }
	first := func(b []byte, p, _ splice.Place) []byte { return splice.PrependElement(b, p, []byte("0")) }
	last := func(b []byte, p, _ splice.Place) []byte { return splice.AppendElement(b, p, []byte("9")) }
	replace := func(b []byte, p, _ splice.Place) []byte { return splice.Replace(b, p, []byte("{}")) }
	add := func(b []byte, _, o splice.Place) []byte { return splice.AddMember(b, o, "y\"", []byte("1")) }
	for _, c := range []struct {
		text string
		edit func([]byte, splice.Place, splice.Place) []byte
		want string
	}{
		{` {"x" : "old\\" ,"z":1}`, prepend, ` {"x" : "a\"\n\n\nold\\" ,"z":1}`},
		{`{"x":""}`, prepend, `{"x":"a\"\n"}`},
		{`{"x":"old\\"}`, appendText, `{"x":"old\\\n\n�"}`},
		{`{"x":""}`, appendText, `{"x":"�"}`},
		{`{"x":[ 1 ]}`, first, `{"x":[0, 1 ]}`}, {`{"x":[ ]}`, first, `{"x":[0 ]}`},
		{`{"x":[ 1 ]}`, last, `{"x":[ 1 ,9]}`}, {`{"x":[]}`, last, `{"x":[9]}`},
		{`{"a":1,"x":[1,2] }`, replace, `{"a":1,"x":{} }`},
		{` { "x":1}`, add, ` {"y\"":1, "x":1}`}, {`{ }`, add, `{"y\"":1 }`},
	} {
		text := []byte(c.text)
		x, object := member(t, c.text)
		if got := string(c.edit(text, x, object)); got != c.want {
			t.Errorf("%s became %s, want %s", c.text, got, c.want)
		}
		if string(text) != c.text {
			t.Errorf("%s itself was changed to %s", c.text, text)
		}
	}
}

func TestPlacesKnowWhatIsThere(t *testing.T) {
	t.Parallel()
	if x, _ := member(t, `{"x":[1]}`); x.Kind([]byte(`{"x":[1]}`)) != '[' || !x.Found() {
		t.Errorf("%+v", x)
	}
	if x, _ := member(t, `{}`); x.Kind([]byte(`{}`)) != 0 || x.Found() {
		t.Errorf("%+v", x)
	}
}

func TestArraysAreWritten(t *testing.T) {
	t.Parallel()
	for want, elements := range map[string][][]byte{`[]`: nil, `[1]`: {[]byte("1")}, `[1,{}]`: {[]byte("1"), []byte("{}")}} {
		if got := string(splice.Array(elements...)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
