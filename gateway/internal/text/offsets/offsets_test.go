package offsets

import (
	"bytes"
	"reflect"
	"testing"
)

// all is a value with everything that is coded.
type all struct {
	n       int
	small   uint8
	big     uint64
	a, b    bool
	sum     [16]byte
	texts   [][]byte
	nothing [][]byte
	none    []byte
}

func (v *all) code(c *Coder) {
	c.Int(&v.n)
	Byte(c, &v.small)
	c.Uint64(&v.big)
	c.Flags(&v.a, &v.b)
	c.Sum(&v.sum)
	List(c, &v.texts, c.Bytes)
	List(c, &v.nothing, c.Bytes)
	c.Bytes(&v.none)
}

func TestValuesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	text := []byte("some long text that is not kept")
	want := all{
		n: 300, small: 7, big: 1 << 63, b: true, sum: [16]byte{1, 15: 2},
		texts: [][]byte{text[5:9], text, text[len(text):], []byte("other"), {}, nil, text[3:3]},
	}
	data, ok := Write(text, want.code)
	if !ok || bytes.Contains(data, []byte("long")) {
		t.Fatalf("%q, %v", data, ok)
	}
	another := append(bytes.Clone(text), ", and more"...)
	got := all{n: 1, small: 1, a: true, sum: [16]byte{9}, texts: [][]byte{nil}, nothing: [][]byte{nil}, none: text}
	Read(another, data, got.code)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if &got.texts[0][0] != &another[5] {
		t.Error("a slice is not one of the other text")
	}
	another[5]++
	if got.texts[3][0] = 'O'; bytes.Contains(data, []byte("Other")) {
		t.Error("bytes are shared with what was written")
	}
}

func TestWhatCannotBeWrittenIsReported(t *testing.T) {
	t.Parallel()
	if _, ok := Write(nil, (*Coder).Fail); ok {
		t.Error("written")
	}
}
