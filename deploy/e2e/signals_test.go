package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
)

// missing503 is a script of an upstream that is overloaded.
func missing503(scripted.Request) scripted.Reply {
	return scripted.Error(http.StatusServiceUnavailable, "overloaded", "try again")
}

// blocking is an upstream that announces each request and answers once
// release is closed.
func blocking(t *testing.T, arrived chan<- struct{}, release <-chan struct{}) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// listening reports whether somebody accepts connections at the address.
func listening(url string) bool {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// metric is one sample of the admin port's metrics; 0 if it is not there yet.
func metric(t testing.TB, s *system.System, sample string) float64 {
	t.Helper()
	res, err := http.Get(s.AdminURL() + "/metrics")
	if err != nil {
		t.Fatalf("read metrics: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), sample+" "); found {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("read metric %s: %v", sample, err)
			}
			return n
		}
	}
	return 0
}

// awaitMetric returns once a sample satisfies the condition.
func awaitMetric(t testing.TB, s *system.System, sample string, wanted func(float64) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if wanted(metric(t, s, sample)) {
			return
		}
	}
	t.Fatalf("%s is %v", sample, metric(t, s, sample))
}
