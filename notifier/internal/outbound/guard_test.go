package outbound

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHostsThatAreKnownToBePrivateAreFoundEarly(t *testing.T) {
	t.Parallel()
	allowed := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for host, ok := range map[string]bool{
		"example.com": true, "10.1.2.3": true, "93.184.215.14": true, "localhost": false, "LOCALHOST": true, "127.0.0.1": false, "::1": false, "::ffff:127.0.0.1": false, "fe80::1%eth0": false,
	} {
		if err := CheckHost(host, allowed); (err == nil) != ok {
			t.Errorf("%s: got %v", host, err)
		}
	}
}

func TestURLsOfEndpoints(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"https://example.com/a?b": true, "http://u:p@h:1": true, "ftp://h": false, "https://": false, "h": false, "http://[": false} {
		if _, err := ParseURL(text); (err == nil) != ok || err != nil && len(text) > 8 && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func local(t *testing.T) *Client {
	t.Helper()
	c := NewClient(NewDialer([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}))
	t.Cleanup(c.Close)
	return c
}

func TestCertificatesAreVerified(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the refusal is expected
	server.StartTLS()
	t.Cleanup(server.Close)
	if _, err := local(t).Post(t.Context(), server.URL, http.Header{}, nil); err == nil || !strings.Contains(err.Error(), "certificate is not valid") {
		t.Errorf("got %v", err)
	}
}

func TestCredentialsOfURLsAreUsedAndHidden(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got <- user + ":" + password
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	_, err := local(t).Post(t.Context(), strings.Replace(server.URL, "http://", "http://user:s3cret@", 1), http.Header{}, nil)
	if <-got != "user:s3cret" || err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

// A port on which nothing listens, and a name that nobody has, are told apart.
func TestReasonsSayWhatToMend(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for url, want := range map[string]string{
		closed.URL:                 "cannot be reached: connection refused",
		"http://no-such.invalid./": "host cannot be resolved",
		"http://10.255.255.1/":     "private address",
		"https://" + strings.TrimPrefix(closed.URL, "http://"): "cannot be reached",
	} {
		if _, err := local(t).Post(t.Context(), url, http.Header{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}
