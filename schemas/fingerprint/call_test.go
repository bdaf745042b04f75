package fingerprint_test

import (
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
