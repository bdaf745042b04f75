package service

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/access"
)

// Scrapes beyond a bound are refused: each takes memory for all metrics.
func TestScrapesAreBounded(t *testing.T) {
	t.Parallel()
	reg, began, end := NewRegistry(), make(chan struct{}), make(chan struct{})
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
		began <- struct{}{}
		<-end
		return 1
	}))
	admin, err := NewAdmin("127.0.0.1:0", access.Allowed{}, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.listener.Close() })
	scrape := func() int {
		res := httptest.NewRecorder()
		admin.server.Handler.ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return res.Code
	}
	var scrapes sync.WaitGroup
	for range maxScrapes {
		scrapes.Go(func() {
			if status := scrape(); status != http.StatusOK {
				t.Errorf("within the bound: status %d", status)
			}
		})
		<-began
	}
	if status := scrape(); status != http.StatusServiceUnavailable {
		t.Errorf("beyond the bound: status %d", status)
	}
	close(end)
	scrapes.Wait()
}

// pipes is a listener whose connections are pipes, which wait as a test's own clock says.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (pipes) Close() error   { return nil }

// Connections that stay idle, and requests whose body stalls, end by themselves.
func TestConnectionsOfTheAdminPortEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request string
		after   time.Duration
	}{
		"without a request":    {"", headerTimeout},
		"idle after a request": {"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", adminIdleTimeout},
		"in its headers":       {"GET /healthz HTTP/1.1\r\nHost:", headerTimeout},
		"in its body":          {"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", bodyTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin, err := NewAdmin("127.0.0.1:0", access.Allowed{}, NewRegistry(), Named{Name: "paged", Service: &paged{}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = admin.listener.Close() })
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				listener := make(pipes, 1)
				listener <- server
				served := make(chan error)
				go func() { served <- admin.server.Serve(listener) }()
				began := time.Now()
				go func() { _, _ = io.WriteString(client, c.request) }()
				if _, err := io.Copy(io.Discard, client); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < c.after || took > c.after+time.Second {
					t.Errorf("it ended after %s, want %s", took, c.after)
				}
				close(listener)
				if err := <-served; !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}

func TestAddressesThatOthersReachNeedAKeyOrLeave(t *testing.T) {
	t.Parallel()
	key := []string{"key:env:X"}
	for name, c := range map[string]struct {
		process Process
		fault   string
	}{
		"loopback":                {Process{Admin: "127.0.0.1:8081"}, ""},
		"loopback by name":        {Process{Admin: "localhost:8081"}, ""},
		"loopback of IPv6":        {Process{Admin: "[::1]:8081"}, ""},
		"every address":           {Process{Admin: ":8081"}, "--admin-auth"},
		"every address of IPv4":   {Process{Admin: "0.0.0.0:8081"}, "--insecure"},
		"another name":            {Process{Admin: "gateway.example:8081"}, "other machines"},
		"no port":                 {Process{Admin: "127.0.0.1"}, "--admin"},
		"elsewhere with a key":    {Process{Admin: ":8081", AdminAuth: key}, ""},
		"elsewhere with a waiver": {Process{Admin: ":8081", Insecure: true}, ""},
	} {
		err := c.process.CheckAdmin()
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
	if err := (Process{}).CheckLoopback("--nats-listen", ":4222"); err == nil || strings.Contains(err.Error(), "auth") {
		t.Errorf("an address that no key can guard: %v", err)
	}
}

func TestAdminKeysMustBeReadable(t *testing.T) {
	t.Parallel()
	if guard, err := AdminGuard(nil); guard != nil || err != nil {
		t.Errorf("without keys: %v, %v", guard, err)
	}
	for flag, want := range map[string]string{"env:X": "key:env:VARIABLE", "key:env:NO_SUCH_ADMIN_KEY": "NO_SUCH_ADMIN_KEY", "jwt:https://x": "key:"} {
		if _, err := AdminGuard([]string{flag}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
}

func TestRequestsForModelsAreToldWhereToGo(t *testing.T) {
	t.Parallel()
	admin, err := NewAdmin("127.0.0.1:0", access.Allowed{}, NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.listener.Close() })
	for request, told := range map[string]bool{
		"POST /v1/chat/completions": true, "GET /v1/models": true, "POST /v1beta/models/m:generateContent": true, "POST /api/chat": true, "POST /model/m/converse": true,
		"GET /": false, "POST /api/v1/loops/x/release": false, "GET /healthz": false,
	} {
		method, path, _ := strings.Cut(request, " ")
		res := httptest.NewRecorder()
		admin.server.Handler.ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		if got := res.Code == http.StatusNotFound && strings.Contains(res.Body.String(), "set the base URL to the gateway's port"); got != told {
			t.Errorf("%s: status %d, %s", request, res.Code, res.Body)
		}
	}
}

func TestAnAddressWithoutAHostIsRefusedWithOneThatIsRight(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{"8099": "such as 127.0.0.1:8099", "localhost": "such as 127.0.0.1:8080"} {
		if err := (Process{}).CheckLoopback("--listen", addr); err == nil || !strings.Contains(err.Error(), "--listen is \""+addr+"\"; set it to HOST:PORT, "+want) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
