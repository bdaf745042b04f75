package jsonwalk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
)

func skip(text string) error {
	return jsonwalk.Text([]byte(text), func(w *jsonwalk.Walker) error { return w.Skip() })
}

// descend visits every value by callbacks.
func descend(w *jsonwalk.Walker) error {
	switch w.Kind() {
	case '{':
		return w.Object(func([]byte) error { return descend(w) })
	case '[':
		return w.Array(func() error { return descend(w) })
	case '"':
		_, err := w.Bytes()
		return err
	default:
		_, err := w.Raw()
		return err
	}
}

func TestFaultyTextsAreErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		``: jsonwalk.ErrSyntax, ` `: jsonwalk.ErrSyntax, `{`: jsonwalk.ErrSyntax, `}`: jsonwalk.ErrSyntax, `[1,]`: jsonwalk.ErrSyntax,
		`{"a":1,}`: jsonwalk.ErrSyntax, `{"a"}`: jsonwalk.ErrSyntax, `{a:1}`: jsonwalk.ErrSyntax, `[1 2]`: jsonwalk.ErrSyntax,
		`01`: jsonwalk.ErrTrailing, `1.`: jsonwalk.ErrSyntax, `-`: jsonwalk.ErrSyntax, `1e`: jsonwalk.ErrSyntax, `+1`: jsonwalk.ErrSyntax,
		`.5`: jsonwalk.ErrSyntax, `tru`: jsonwalk.ErrSyntax, `nul1`: jsonwalk.ErrSyntax, `"a`: jsonwalk.ErrSyntax, `"\x"`: jsonwalk.ErrSyntax,
		`"\u12g4"`: jsonwalk.ErrSyntax, `"\`: jsonwalk.ErrSyntax, "\"a\nb\"": jsonwalk.ErrSyntax, `'a'`: jsonwalk.ErrSyntax, `NaN`: jsonwalk.ErrSyntax,
		"\"\xff\"": jsonwalk.ErrUTF8, "\"aaaaaaaaaa\xc3\"": jsonwalk.ErrUTF8, "{\"\xff\":1}": jsonwalk.ErrUTF8, `{"\ud800":1}`: jsonwalk.ErrUTF8,
		"\ufeff{}": jsonwalk.ErrSyntax, `{} {}`: jsonwalk.ErrTrailing, `1,`: jsonwalk.ErrTrailing,
		`{"a":1,"a":2}`: jsonwalk.ErrDuplicate, `{"a":1,"\u0061":2}`: jsonwalk.ErrDuplicate, `[{"x":{"a":1,"b":2,"a":3}}]`: jsonwalk.ErrDuplicate,
		strings.Repeat("[", 513) + strings.Repeat("]", 513):           jsonwalk.ErrDepth,
		strings.Repeat(`{"a":`, 513) + "1" + strings.Repeat("}", 513): jsonwalk.ErrDepth,
		strings.Repeat("[", 1<<20):                                    jsonwalk.ErrDepth,
	} {
		if err := skip(text); !errors.Is(err, want) {
			t.Errorf("skip %.40q: %v, want %v", text, err, want)
		}
		if err := jsonwalk.Text([]byte(text), descend); !errors.Is(err, want) {
			t.Errorf("walk over %.40q: %v, want %v", text, err, want)
		}
	}
}

func TestSoundTextsAreWalkedOver(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `[]`, ` null `, `"\ud800"`, `-0.5e+10`, `{"a":{"a":{"a":[]}},"b":[{"a":1},{"a":1}]}`, "\t[ 1 ,\r\n2 ]", `"\u00e9\/` + "é漢😀" + `"`,
		strings.Repeat("[", 512) + strings.Repeat("]", 512),
	} {
		if err := skip(text); err != nil {
			t.Errorf("skip %q: %v", text, err)
		}
		if err := jsonwalk.Text([]byte(text), descend); err != nil {
			t.Errorf("walk over %q: %v", text, err)
		}
	}
}

func TestObjectsWithManyMembersKnowTheirNames(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `"n%d":{"a":1,"n%d":2},`, i, i)
	}
	if err := skip("{" + b.String() + `"last":1}`); err != nil {
		t.Error(err)
	}
	if err := skip("{" + b.String() + `"n3":1}`); !errors.Is(err, jsonwalk.ErrDuplicate) {
		t.Errorf("a late duplicate: %v", err)
	}
}

func TestMembersAreFoundAndTheRestSkipped(t *testing.T) {
	t.Parallel()
	text := []byte(` {"skip":{"name":[1,{"x":"}"}]}, "na\u006de" : "J\u00f6rg \ud83d\ude00\n", "list":[1,"two",null], "yes":true} `)
	var name, two, list string
	var yes bool
	err := jsonwalk.Text(text, func(w *jsonwalk.Walker) error {
		return w.Object(func(member []byte) (err error) {
			switch string(member) {
			case "name":
				name, err = w.String()
			case "yes":
				yes, err = w.Bool()
			case "list":
				from := w.Offset()
				err = w.Array(func() error {
					s, err := w.String()
					two += s
					return err
				})
				list = string(text[from:w.Offset()])
			}
			return err
		})
	})
	if err != nil || name != "Jörg 😀\n" || two != "two" || !yes || list != `[1,"two",null]` {
		t.Errorf("got %q, %q, %v, %s, %v", name, two, yes, list, err)
	}
}

func TestTheWrongTypeIsAnError(t *testing.T) {
	t.Parallel()
	err := jsonwalk.Text([]byte(`[]`), func(w *jsonwalk.Walker) error { return w.Object(func([]byte) error { return nil }) })
	if !errors.Is(err, jsonwalk.ErrKind) {
		t.Errorf("an array as an object: %v", err)
	}
	err = jsonwalk.Text([]byte(`"x"`), func(w *jsonwalk.Walker) error { return w.Array(func() error { return nil }) })
	if !errors.Is(err, jsonwalk.ErrKind) {
		t.Errorf("a string as an array: %v", err)
	}
}

func TestValuesOfOtherTypesAreSkipped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`{"a":1,"b":[]}`: "ab", `["x","y"]`: "..", `"x"`: "", `null`: "", `{"a":{"b":1}}`: "a"} {
		var got string
		members := func(w *jsonwalk.Walker) error {
			return w.Members(func(name []byte) error { got += string(name); return nil })
		}
		elements := func(w *jsonwalk.Walker) error { return w.Elements(func() error { got += "."; return nil }) }
		if err := errors.Join(jsonwalk.Text([]byte(text), members), jsonwalk.Text([]byte(text), elements)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestErrorsOfCallbacksEndTheWalk(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for _, text := range []string{`{"a":1}`, `[1]`, `{"a":[{"b":1}]}`} {
		err := jsonwalk.Text([]byte(text), func(w *jsonwalk.Walker) error {
			if w.Kind() == '{' {
				return w.Object(func([]byte) error { return stop })
			}
			return w.Array(func() error { return stop })
		})
		if !errors.Is(err, stop) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestStringsAreUnquotedAsOthersDoIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := strings.ToValidUTF8(rapid.String().Draw(t, "string"), "?")
		quoted, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(jsonwalk.AppendString(nil, quoted)); got != want {
			t.Errorf("%s is %q, want %q", quoted, got, want)
		}
	})
	if got := jsonwalk.AppendString([]byte("x"), []byte("12")); string(got) != "x" {
		t.Errorf("a number became %q", got)
	}
}

// FuzzText compares what is accepted with two other parsers.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,2.5e-3,"x\n\u00e9",true,null],"b":{}}`, `{"a":1,"a":2}`, `["\ud83d\ude00","\ud800","é漢"]`, `[[[[{}]]]] x`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := skip(string(text))
		if walked := jsonwalk.Text(text, descend); (walked == nil) != (err == nil) {
			t.Fatalf("skip says %v, a walk %v", err, walked)
		}
		if err == nil {
			if !json.Valid(text) || !utf8.Valid(text) {
				t.Fatal("accepted what is no JSON")
			}
			if !jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) {
				t.Fatal("accepted what jsontext rejects")
			}
			return
		}
		if jsontext.Value(text).IsValid() && !errors.Is(err, jsonwalk.ErrDepth) {
			t.Fatalf("rejected what is sound: %v", err)
		}
	})
}

// BenchmarkSkip compares reading a text with doing so by jsontext.
func BenchmarkSkip(b *testing.B) {
	code := strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", path, err)\n\t}\n", 2000)
	for name, text := range map[string]string{
		"prose": strings.Repeat("The quick brown fox jumps over the lazy dog. ", 3000), "code": code, "cjk": strings.Repeat("漢字かな交じり文", 6000),
	} {
		quoted, err := json.Marshal(map[string]string{"content": text})
		if err != nil {
			b.Fatal(err)
		}
		for reader, skip := range map[string]func() error{
			"jsonwalk": func() error { return jsonwalk.Text(quoted, (*jsonwalk.Walker).Skip) },
			"jsontext": func() error { return jsontext.NewDecoder(bytes.NewBuffer(quoted)).SkipValue() },
		} {
			b.Run(name+"/"+reader, func(b *testing.B) {
				b.SetBytes(int64(len(quoted)))
				b.ReportAllocs()
				for b.Loop() {
					if err := skip(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
