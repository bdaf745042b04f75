package route

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/gemini"
	other "github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	table, err := NewTable(map[string]string{
		"openai": "http://oai:1/v1", "anthropic": "http://ant:2", "local": "http://llama:3/v1/", "default": "http://any:4/base",
	})
	if err != nil {
		t.Fatal(err)
	}
	versioned := http.Header{"Anthropic-Version": {"2023-06-01"}}
	google := http.Header{"X-Goog-Api-Key": {"AIzaSy"}}
	for _, c := range []struct {
		path   string
		header http.Header
		want   string
		format *provider.Format
	}{
		{"/v1/chat/completions", nil, "http://oai:1/v1/chat/completions", chat.Format},
		{"/v1/models?limit=3", nil, "http://oai:1/v1/models?limit=3", other.Format},
		{"/v1/responses", nil, "http://oai:1/v1/responses", responses.Format},
		{"/v1/responses/", nil, "http://oai:1/v1/responses/", responses.Format},
		{"/v1/responses/resp_1/cancel", nil, "http://oai:1/v1/responses/resp_1/cancel", other.Format},
		{"/v1/threads/t/messages", nil, "http://oai:1/v1/threads/t/messages", other.Format},
		{"/v1/models", versioned, "http://ant:2/v1/models", anthropic.Upstream.Other},
		{"/v1/messages", nil, "http://ant:2/v1/messages", anthropic.Format},
		{"/anthropic/v1/messages?beta=true", nil, "http://ant:2/v1/messages?beta=true", anthropic.Format},
		{"/local/v1/messages", nil, "http://llama:3/v1/messages", anthropic.Format},
		{"/v1/messages/count_tokens", nil, "http://ant:2/v1/messages/count_tokens", anthropic.Upstream.Other},
		{"/v1/messages/batches", nil, "http://ant:2/v1/messages/batches", anthropic.Upstream.Other},
		{"/v1beta/models/x:generateContent", nil, "https://generativelanguage.googleapis.com/v1beta/models/x:generateContent", gemini.Format},
		{"/v1beta/models/x%3AstreamGenerateContent?alt=sse&key=k", nil, "https://generativelanguage.googleapis.com/v1beta/models/x%3AstreamGenerateContent?alt=sse&key=k", gemini.Format},
		{"/v1beta/models/x:countTokens", nil, "https://generativelanguage.googleapis.com/v1beta/models/x:countTokens", gemini.Upstream.Other},
		{"/v1beta/openai/chat/completions", nil, "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", chat.Format},
		{"/upload/v1beta/files", nil, "https://generativelanguage.googleapis.com/upload/v1beta/files", gemini.Upstream.Other},
		{"/v1/models/x:generateContent", nil, "https://generativelanguage.googleapis.com/v1/models/x:generateContent", gemini.Format},
		{"/v1/models/x%3AcountTokens", nil, "https://generativelanguage.googleapis.com/v1/models/x%3AcountTokens", gemini.Upstream.Other},
		{"/v1/models", google, "https://generativelanguage.googleapis.com/v1/models", gemini.Upstream.Other},
		{"/v1/models?key=AIzaSy", nil, "https://generativelanguage.googleapis.com/v1/models?key=AIzaSy", gemini.Upstream.Other},
		{"/v1/models?key=other", nil, "http://oai:1/v1/models?key=other", other.Format},
		{"/v1/models/ft:gpt-x:acme::predict-9", nil, "http://oai:1/v1/models/ft:gpt-x:acme::predict-9", other.Format},
		{"/v1/chat/completions", http.Header{"Authorization": {"Bearer sk-ant-api03-x"}}, "http://ant:2/v1/chat/completions", chat.Format},
		{"/v1/chat/completions", http.Header{"Authorization": {"Bearer sk-proj-x"}}, "http://oai:1/v1/chat/completions", chat.Format},
		{"/v1/projects/p/locations/us-central1/publishers/google/models/x:streamGenerateContent?alt=sse", nil,
			"https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/publishers/google/models/x:streamGenerateContent?alt=sse", gemini.Format},
		{"/v1beta1/projects/p/locations/global/publishers/google/models/x:generateContent", nil,
			"https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers/google/models/x:generateContent", gemini.Format},
		{"/v1beta1/projects/p/locations/eu/publishers/google/models/x:countTokens", nil,
			"https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu/publishers/google/models/x:countTokens", gemini.Upstream.Other},
		{"/v1beta1/publishers/google/models/x:generateContent", google, "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/x:generateContent", gemini.Format},
		{"/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-x@1:streamRawPredict", nil,
			"https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-x@1:streamRawPredict", anthropic.Format},
		{"/v1/projects/p/locations/us-east5/publishers/anthropic/models/count-tokens:rawPredict", nil,
			"https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic/models/count-tokens:rawPredict", gemini.Upstream.Other},
		{"/v1/projects/p/locations/evil.com%2F/endpoints/openapi/chat/completions", nil,
			"https://aiplatform.googleapis.com/v1/projects/p/locations/evil.com%2F/endpoints/openapi/chat/completions", chat.Format},
		{"/v1beta1/models/x:generateContent", nil, "https://generativelanguage.googleapis.com/v1beta1/models/x:generateContent", gemini.Format},
		{"/local/v1/chat/completions", nil, "http://llama:3/v1/chat/completions", chat.Format},
		{"/local/chat/completions", nil, "http://llama:3/v1/chat/completions", chat.Format},
		{"/openai/deployments/gpt/chat/completions?api-version=1", nil, "http://oai:1/v1/deployments/gpt/chat/completions?api-version=1", chat.Format},
		{"/local", nil, "http://llama:3/v1/", other.Format},
		{"/other/a%2Fb/c%20d?q=%zz;x", nil, "http://any:4/base/other/a%2Fb/c%20d?q=%zz;x", other.Format},
		{"/v2/chat", nil, "http://any:4/base/v2/chat", other.Format},
		{"/v2/models/x", google, "http://any:4/base/v2/models/x", other.Format},
		{"/v2/models/x:generateContent?key=AIzaSy", google, "http://any:4/base/v2/models/x:generateContent?key=AIzaSy", gemini.Format},
		{"/v2/chat/completions", http.Header{"Authorization": {"Bearer sk-ant-api03-x"}}, "http://any:4/base/v2/chat/completions", chat.Format},
		{"/v1x/models", nil, "http://any:4/base/v1x/models", other.Format},
		{"/", nil, "http://any:4/base/", other.Format},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://gateway/", nil)
		path, query, _ := strings.Cut(c.path, "?")
		if r.URL.Path, r.URL.RawPath, r.URL.RawQuery = path, path, query; c.header != nil {
			r.Header = c.header
		}
		if !strings.Contains(path, "%") {
			r.URL.RawPath = ""
		} else {
			r.URL.Path = strings.NewReplacer("%2F", "/", "%20", " ", "%3A", ":").Replace(path)
		}
		got, ok := table.Route(r)
		if !ok || got.URL.String() != c.want || got.Format != c.format {
			t.Errorf("%s goes to %v as %s, want %s as %s", c.path, got.URL, got.Format.Name(), c.want, c.format.Name())
		}
	}
}

func TestUnknownPathsGoNowhereWithoutADefault(t *testing.T) {
	t.Parallel()
	table, err := NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/favicon.ico", "/v2/chat", "/v2/models/x:generateContent?key=AIzaSy", "/model/m/converse"} {
		if target, ok := table.Route(httptest.NewRequest(http.MethodGet, path, nil)); ok {
			t.Errorf("%s goes to %v", path, target.URL)
		}
	}
}

func TestFaultyUpstreamsAreAllReported(t *testing.T) {
	t.Parallel()
	_, err := NewTable(map[string]string{
		"a": "ftp://x", "b": "http://user:secret@x", "c/d": "http://x", "v1": "http://x", "e": "http://x?q=1", "f": "://",
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"a", "b", "c/d", "v1", "e", "f"} {
		if !strings.Contains(err.Error(), "--upstream "+name+":") {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error shows a password")
	}
}

func TestKeysOfOtherProvidersAreForeign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, header, key string
		want              bool
	}{
		{"api.openai.com", "Authorization", "Bearer sk-proj-1", false},
		{"api.openai.com", "Authorization", "Bearer sk-unknown", false},
		{"api.openai.com", "Authorization", "Bearer sk-ant-1", true},
		{"api.openai.com", "X-Goog-Api-Key", "anything", true},
		{"api.anthropic.com", "X-Api-Key", "sk-ant-1", false},
		{"api.anthropic.com", "X-Api-Key", "sk-proj-1", true},
		{"us-east5-aiplatform.googleapis.com", "Authorization", "Bearer ya29.x", false},
		{"generativelanguage.googleapis.com", "Authorization", "Bearer sk-ant-1", true},
		{"localhost:4000", "Authorization", "Bearer sk-ant-1", false},
	} {
		if got := len(Foreign(c.host, http.Header{c.header: {c.key}})) > 0; got != c.want {
			t.Errorf("%s: %s at %s: foreign is %v", c.header, c.key, c.host, got)
		}
	}
}

func TestUpstreamsAreKnownByName(t *testing.T) {
	t.Parallel()
	table, err := NewTable(map[string]string{"local": "http://llama:3/v1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"local": true, "openai": true, "vertex": true, Default: false, "other": false} {
		if table.Known(name) != want {
			t.Errorf("%s is known: %v", name, !want)
		}
	}
}

func TestFaultyEscapesStay(t *testing.T) {
	t.Parallel()
	for escaped, want := range map[string]string{"/a%20b": "/a b", "/a%zzb": "/a%zzb", "/%": "/%", "/a%252F": "/a%2F"} {
		if got := unescaped(escaped); got != want {
			t.Errorf("%s: %s, want %s", escaped, got, want)
		}
	}
}
