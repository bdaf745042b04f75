package fingerprint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/fingerprint"
)

func digest(t *testing.T, text string) fingerprint.Digest {
	t.Helper()
	d, err := fingerprint.JSON([]byte(text))
	if err != nil {
		t.Fatalf("JSON(%s): %v", text, err)
	}
	return d
}

func TestSpellingOfJSONDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, " {\n\t\"b\" : 2 , \"a\" : 1 }\r\n"},
		{`{"a":{"x":[1,{"p":1,"q":2}],"y":0}}`, `{"a":{"y":0,"x":[1,{"q":2,"p":1}]}}`},
		{`1`, `1.0`, `1e0`, `1.000`, `10e-1`, `0.1E+1`, `0.01e2`},
		{`0`, `-0`, `0.0`, `-0.0e5`, `0e99999999999`},
		{`100`, `1e2`, `1E+2`, `100.00`, `1000e-1`},
		{`-12.5`, `-1.25e1`, `-125e-1`},
		{`9007199254740993`, `9007199254740993.0`, `9.007199254740993e15`},
		{`1e39`, `1` + strings.Repeat("0", 39)},
		{`1e60`, `1` + strings.Repeat("0", 60), `10e59`},
		{`"a/b"`, `"a\/b"`, `"\u0061/b"`},
		{`"é"`, `"\u00e9"`},
		{`[]`, `[ ]`},
		{`{}`, `{ }`},
	} {
		for _, other := range same[1:] {
			if digest(t, same[0]) != digest(t, other) {
				t.Errorf("%s and %s must be the same", same[0], other)
			}
		}
	}
}

func TestDifferentValuesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[fingerprint.Digest]string{}
	for _, text := range []string{
		`null`, `true`, `false`, `0`, `1`, `-1`, `10`, `100`, `1e40`, `1e41`, `-1e41`, `1e-1`, `0.11`, `1e99999999999`, `-1e99999999999`,
		`9007199254740993`, `9007199254740992`, `""`, `"1"`, `"null"`, `"a"`, `"A"`, `"a "`, `[]`, `{}`, `[[]]`, `[{}]`, `[null]`,
		`[1,2]`, `[2,1]`, `[[1],2]`, `[1,[2]]`, `[1,2,3]`, `["a","b"]`, `{"a":"b"}`, `{"b":"a"}`, `{"a":["b"]}`, `{"a":1,"b":2}`,
		`{"a":2,"b":1}`, `{"a":{"b":1}}`, `{"a":null}`, `{"":""}`, `["",""]`,
	} {
		d := digest(t, text)
		if first, dup := seen[d]; dup {
			t.Errorf("%s and %s must differ", first, text)
		}
		seen[d] = text
	}
}

func TestWhatHasNoCanonicalFormIsAnError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`{"a":1,"a":1}`:               fingerprint.ErrDuplicateKey,
		`[{"x":{"a":1,"b":2,"a":3}}]`: fingerprint.ErrDuplicateKey,
		`{"a":1,"\u0061":2}`:          fingerprint.ErrDuplicateKey,
		`1 2`:                         fingerprint.ErrTrailing,
		`{} x`:                        fingerprint.ErrTrailing,
		``:                            nil, ` `: nil, `{`: nil, `[1,]`: nil, `{"a"}`: nil, `]`: nil, `01`: nil, `nul`: nil, `'a'`: nil,
		`"` + "\xff" + `"`: nil, `"a`: nil, `{"a":1,}`: nil, `NaN`: nil,
		strings.Repeat("[", fingerprint.MaxDepth+1) + strings.Repeat("]", fingerprint.MaxDepth+1): fingerprint.ErrTooDeep,
		strings.Repeat("[", 1_000_000): fingerprint.ErrTooDeep,
	} {
		_, err := fingerprint.JSON([]byte(text))
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("JSON(%.40q): got error %v, want %v", text, err, want)
		}
	}
	deepest := strings.Repeat("[", fingerprint.MaxDepth) + strings.Repeat("]", fingerprint.MaxDepth)
	digest(t, deepest)
}

func TestAReusedCanonForgetsWhatItFailedAt(t *testing.T) {
	t.Parallel()
	var c fingerprint.Canon
	for _, bad := range []string{`{"a":[1,{"b":`, `{"a":1,"a":1}`, `[1,2`} {
		if _, err := c.JSON([]byte(bad)); err == nil {
			t.Fatalf("JSON(%s) must fail", bad)
		}
		got, err := c.JSON([]byte(`{"a":[1,2]}`))
		if err != nil || got != digest(t, `{"a":[1,2]}`) {
			t.Fatalf("after %s: got %v, %v", bad, got, err)
		}
	}
}

func TestStringAgreesWithJSON(t *testing.T) {
	t.Parallel()
	if fingerprint.String([]byte("say \"hi\"\n")) != digest(t, `"say \"hi\"\n"`) {
		t.Error("String of unquoted text must equal JSON of the quoted")
	}
}

// jsonValue draws any JSON value, as encoding/json represents it.
func jsonValue(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any { return f }),
	)
	if depth == 0 {
		return scalar
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(depth - 1) })
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 4), func(v map[string]any) any { return v }),
	)
}

// respell writes v with random white space and member order.
func respell(t *rapid.T, buf *bytes.Buffer, v any) {
	space := func() { buf.WriteString(rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")) }
	space()
	defer space()
	switch v := v.(type) {
	case []any:
		buf.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				buf.WriteByte(',')
			}
			respell(t, buf, e)
		}
		buf.WriteByte(']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		buf.WriteByte('{')
		for i, k := range rapid.Permutation(keys).Draw(t, "keys") {
			if i > 0 {
				buf.WriteByte(',')
			}
			respell(t, buf, k)
			buf.WriteByte(':')
			respell(t, buf, v[k])
		}
		buf.WriteByte('}')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		buf.Write(text)
	}
}

func TestAnyRespellingHasTheSameDigest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := jsonValue(3).Draw(t, "value")
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var other bytes.Buffer
		respell(t, &other, v)
		a, errA := fingerprint.JSON(plain)
		b, errB := fingerprint.JSON(other.Bytes())
		if errA != nil || errB != nil || a != b {
			t.Fatalf("%s: %v %v\n%s: %v %v", plain, a, errA, other.Bytes(), b, errB)
		}
	})
}

func FuzzJSONAgreesWithTheStandardDecoder(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.50,"x\n"],"b":null}`, `[1e400,-0]`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, `[[[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		d, err := fingerprint.JSON(data)
		if !bytes.Equal(before, data) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q has a digest but is no JSON", data)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			t.Fatal(err)
		}
		if again, err := fingerprint.JSON(compact.Bytes()); err != nil || again != d {
			t.Fatalf("%q compacted: %v, %v; was %v", data, again, err, d)
		}
	})
}
