package provider_test

import (
	"math"
	"net/http"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

func TestTokensOfHeadersAreRead(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"Bearer sk-1": "sk-1", "bearer sk-1": "sk-1", "Basic dTpw": "Basic dTpw", "sk-1": "sk-1", "": ""} {
		if got := provider.Bearer(http.Header{"Authorization": {header}}); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func TestStreamsAreWrittenByEvents(t *testing.T) {
	t.Parallel()
	var unix provider.Stream
	unix.Data(1)
	unix.Typed("start", map[string]any{"n": 1})
	unix.Done()
	if got := unix.Answer(); string(got.Body) != "data: 1\n\nevent: start\ndata: {\"n\":1,\"type\":\"start\"}\n\ndata: [DONE]\n\n" || got.ContentType != provider.TypeEvents {
		t.Errorf("%q", got.Body)
	}
	other := provider.Stream{CRLF: true}
	other.Data(1)
	if got := string(other.Answer().Body); got != "data: 1\r\n\r\n" {
		t.Errorf("%q", got)
	}
	if got := provider.Document(math.NaN()); string(got.Body) != "{}" || got.ContentType != provider.TypeJSON {
		t.Errorf("what is no JSON became %s", got.Body)
	}
}

func TestErrorsAreNamedByTheirStatus(t *testing.T) {
	t.Parallel()
	names := provider.StatusNames{Names: map[int]string{401: "key"}, Client: "client", Server: "server"}
	for status, want := range map[int]string{401: "key", 400: "client", 499: "client", 500: "server", 503: "server"} {
		if got := names.Of(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func TestAnAnswerNeedsAPromptOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prompt *provider.Prompt
		want   bool
	}{{nil, false}, {&provider.Prompt{}, true}, {&provider.Prompt{Structured: true}, false}, {&provider.Prompt{Delta: true}, false}} {
		if c.prompt.Answerable() != c.want {
			t.Errorf("%+v: want %v", c.prompt, c.want)
		}
	}
}
