package route

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestMisdirectedNamesTheBaseURL(t *testing.T) {
	t.Parallel()
	const (
		lacks  = "the base URL lacks /v1; it must be http://127.0.0.1:8080/v1 for this client"
		google = "the base URL lacks /v1beta; it must be http://127.0.0.1:8080/v1beta for this client"
		twice  = "the path begins with /v1 twice, because the client adds it by itself; its base URL must be http://127.0.0.1:8080"
	)
	for path, want := range map[string]string{
		"/chat/completions":         lacks,
		"/responses":                lacks,
		"/models":                   lacks,
		"/messages":                 lacks,
		"/models/m:generateContent": google,
		"/v1/v1/messages":           twice,
		"/v1/chat/completions":      "",
		"/v1/v1":                    "",
		"/v1beta/models":            "",
		"/":                         "",
		"/chats":                    "",
		"/somewhere/else":           "",
	} {
		if got := Misdirected(httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080"+path, nil)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
