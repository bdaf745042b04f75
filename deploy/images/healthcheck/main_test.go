package main

import "testing"

func TestTheCheckFollowsTheAdminPort(t *testing.T) {
	t.Parallel()
	for admin, want := range map[string]string{
		"":                  "http://127.0.0.1:8081/readyz",
		"0.0.0.0:8081":      "http://127.0.0.1:8081/readyz",
		":9000":             "http://127.0.0.1:9000/readyz",
		"[::]:9000":         "http://127.0.0.1:9000/readyz",
		"10.0.0.7:9000":     "http://10.0.0.7:9000/readyz",
		"localhost:9000":    "http://localhost:9000/readyz",
		"what is this then": "http://127.0.0.1:8081/readyz",
	} {
		if got := where(admin); got != want {
			t.Errorf("%q: %s, want %s", admin, got, want)
		}
	}
}
