package fingerprint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/fingerprint"
)

func TestACallIsItsToolAndItsArguments(t *testing.T) {
	t.Parallel()
	want := fingerprint.Call("read", digest(t, `{"a":1,"b":2}`))
	if got := fingerprint.Call("read", digest(t, `{"b":2.0, "a":1}`)); got != want {
		t.Errorf("digest %s in another spelling, want %s", got, want)
	}
	if fingerprint.Call("write", digest(t, `{"a":1,"b":2}`)) == want || fingerprint.Call("read", digest(t, `{"a":1}`)) == want {
		t.Error("another tool or other arguments must be another call")
	}
	if got, want := fingerprint.Call("read", digest(t, `{"b":1.0,"a":["x",null]}`)).String(), "9c7900d6b22224eb9b9bda3cec98c361"; got != want {
		t.Errorf("call %s, want %s as in stored sessions", got, want)
	}
}

func TestAppendedFieldsAreThoseOfABuilder(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	fields := fingerprint.AppendField(nil, []byte("domain/1"))
	fields = fingerprint.AppendField(fingerprint.AppendField(fields, nil), []byte(long))
	if want := fingerprint.New("domain/1").String("").String(long).Sum().Digest(); fingerprint.Sum(fields) != want {
		t.Errorf("got %s, want %s", fingerprint.Sum(fields), want)
	}
	if want := fingerprint.New(fingerprint.DomainResult).String("").Sum().Digest(); fingerprint.EmptyResult() != want {
		t.Errorf("empty result %s, want %s", fingerprint.EmptyResult(), want)
	}
}

func TestDigests(t *testing.T) {
	t.Parallel()
	d := fingerprint.String([]byte("a"))
	if d.IsZero() || !(fingerprint.Digest{}).IsZero() {
		t.Error("only the zero digest is none")
	}
	if got, want := fmt.Sprintf("%016x", d.Key()), d.String()[:16]; got != want {
		t.Errorf("key %s, want the first half, %s", got, want)
	}
	if fingerprint.New("a/1").Digest(d).Sum() != fingerprint.New("a/1").Bytes(d[:]).Sum() {
		t.Error("a digest must be a field like its bytes")
	}
	if fingerprint.Said([]byte("a")) == d || fingerprint.Said([]byte("a")) == fingerprint.Bytes([]byte("a")) {
		t.Error("what a human said must differ from other digests of its text")
	}
	if a, b := fingerprint.Bytes([]byte("a")), fingerprint.Bytes([]byte("b")); a == b || a == d {
		t.Error("raw bytes must differ from each other and from strings")
	}
}
