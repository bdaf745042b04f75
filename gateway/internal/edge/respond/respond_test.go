package respond

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/schemas/client"
)

func TestAnswersAreWrittenWithTheirLength(t *testing.T) {
	t.Parallel()
	type answer struct {
		Status             int
		Type, Length, Body string
	}
	for name, c := range map[string]struct {
		write func(http.ResponseWriter)
		want  answer
	}{
		"text":          {func(w http.ResponseWriter) { Write(w, 429, "text/plain", []byte("no")) }, answer{429, "text/plain", "2", "no"}},
		"JSON":          {func(w http.ResponseWriter) { JSON(w, 200, []int{1}) }, answer{200, "application/json", "3", "[1]"}},
		"value no JSON": {func(w http.ResponseWriter) { JSON(w, 200, func() {}) }, answer{500, "application/json", "2", "{}"}},
		"error": {
			func(w http.ResponseWriter) { Error(w, &client.Error{Status: 404, Code: "c", Message: "m"}) },
			answer{404, "application/json", "47", `{"error":{"code":"c","field":"","message":"m"}}`},
		},
		"refusal": {
			func(w http.ResponseWriter) {
				r := httptest.NewRequest(http.MethodPost, "/", nil)
				Refuse(w, r, plain.Plain{}, provider.Refusal{Status: 404, Code: "c", Message: "m", Headers: []provider.Header{{Name: "Content-Type", Value: "lost"}, {Name: "X-Kept", Value: "yes"}}})
			},
			answer{404, "application/json", "80", `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"c"}}`},
		},
	} {
		w := httptest.NewRecorder()
		c.write(w)
		got := answer{w.Code, w.Header().Get("Content-Type"), w.Header().Get("Content-Length"), w.Body.String()}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
