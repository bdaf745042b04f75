package descriptor

import (
	"net/http"
	"testing"
)

func TestNamesOfHeadersMayHaveUnderscores(t *testing.T) {
	t.Parallel()
	h := http.Header{"X-Api-Key": {"hyphens"}, "X_team": {"underscore"}}
	for name, want := range map[string]string{"X_API_Key": "hyphens", "x-api-key": "hyphens", "x_team": "underscore", "X_Other": ""} {
		got := ""
		if values := headerValues(h, name); len(values) > 0 {
			got = values[0]
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
