package alertmanager

import (
	"net"
	"net/url"
	"testing"
)

func TestPathOfTheAPIIsAddedOnce(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"http://am:9093":                      "http://am:9093/api/v2/alerts",
		"http://am:9093/":                     "http://am:9093/api/v2/alerts",
		"http://am:9093/api/v2/alerts":        "http://am:9093/api/v2/alerts",
		"http://am:9093/api/v2/alerts/":       "http://am:9093/api/v2/alerts/",
		"http://am:9093/prefix":               "http://am:9093/prefix/api/v2/alerts",
		"http://am:9093/alerts":               "http://am:9093/alerts/api/v2/alerts",
		"http://am:9093/team/alerts?tenant=a": "http://am:9093/team/alerts/api/v2/alerts?tenant=a",
	} {
		u, err := url.Parse(from)
		if err != nil {
			t.Fatal(err)
		}
		if got := New(Config{URL: u}, &net.Dialer{}).url; got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
	}
}
