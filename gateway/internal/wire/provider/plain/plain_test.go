package plain_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
)

func TestKeysOfAllProvidersAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header    http.Header
		url, want string
	}{
		{http.Header{"Authorization": {"Bearer sk-1"}}, "/x?key=no", "sk-1"},
		{http.Header{"X-Api-Key": {"ant"}}, "/x", "ant"},
		{http.Header{"X-Goog-Api-Key": {"goog"}}, "/x?key=no", "goog"},
		{http.Header{}, "/x?key=query", "query"},
		{http.Header{}, "/x", ""},
	} {
		r := httptest.NewRequest(http.MethodPost, c.url, nil)
		r.Header = c.header
		if got := (plain.Plain{}).Key(r); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.header, c.url, got, c.want)
		}
	}
}

func TestBodiesAreLeftAlone(t *testing.T) {
	t.Parallel()
	p, body := plain.Plain{}, []byte("not JSON")
	if prompt, err := p.Parse(body, provider.Options{}); prompt != nil || err != nil {
		t.Errorf("a prompt: %v, %v", prompt, err)
	}
	if got, report, err := p.Repair(body); string(got) != "not JSON" || report.Changed() || err != nil {
		t.Errorf("repaired: %s, %v, %v", got, report, err)
	}
	if _, err := p.Hint(body, "stop", provider.Head); !errors.Is(err, provider.ErrNoPlace) {
		t.Errorf("a hint: %v", err)
	}
	if _, err := p.Answer(nil, provider.Reply{}); !errors.Is(err, provider.ErrNoAnswer) {
		t.Errorf("an answer: %v", err)
	}
	if p.Name() != "http" || len(p.Refusal(provider.Refusal{Status: 429})) == 0 {
		t.Error("no name or no refusal")
	}
}
