package endpoints

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// notification is what an Alertmanager sends to a webhook.
type notification struct {
	Status string
	Alerts []struct {
		Status      string
		Labels      map[string]string
		Annotations map[string]string
		StartsAt    time.Time
		EndsAt      time.Time
	}
}

// startAlertmanager starts a real one, which groups by policy, and returns its address and
// what it sends.
func startAlertmanager(t *testing.T) (addr string, sent <-chan notification) {
	t.Helper()
	binary := os.Getenv("UNLOOP_TEST_ALERTMANAGER")
	if binary == "" {
		t.Skip("no Alertmanager: install the Debian package prometheus-alertmanager, and set UNLOOP_TEST_ALERTMANAGER to its path")
	}
	got := make(chan notification, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n notification
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Error(err)
		}
		got <- n
	}))
	t.Cleanup(receiver.Close)
	config := filepath.Join(t.TempDir(), "alertmanager.yml")
	text := "route: {receiver: hook, group_by: [policy], group_wait: 100ms, group_interval: 200ms, repeat_interval: 1h}\n" +
		"receivers: [{name: hook, webhook_configs: [{url: '" + receiver.URL + "'}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr = natstest.FreeAddr(t)
	cmd := exec.Command(binary, "--config.file="+config, "--storage.path="+t.TempDir(), "--web.listen-address="+addr, "--cluster.listen-address=")
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	waitReady(t, "http://"+addr+"/-/ready")
	return addr, got
}

func waitReady(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if resp, err := client.Get(url); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("%s is not ready", url)
}

func TestAlertmanagerReceivesGroupsAndResolves(t *testing.T) {
	t.Parallel()
	addr, sent := startAlertmanager(t)
	b := build(t, `alertmanager: {url: "http://%s", labels: {team: agents}}`, &peer{addr: addr})
	now := time.Now().UTC()
	loop := func(typ event.Type, id string, at time.Time) event.Event {
		e := render.Example().Events[0]
		e.Type, e.Timestamp, e.Data.LoopID, e.Data.FirstSeen = typ, at, id, now.Add(-time.Minute)
		return e
	}
	send := func(resolved bool, events ...event.Event) {
		t.Helper()
		if err := b.Sink.Send(t.Context(), &sink.Message{ID: "m", Key: "k", Resolved: resolved, Events: events, Time: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	send(false, loop(event.Detected, "one", now), loop(event.Detected, "two", now))
	n := receiveFrom(t, sent)
	for n.Status == "firing" && len(n.Alerts) < 2 { // Alertmanager takes alerts one after the other
		n = receiveFrom(t, sent)
	}
	if n.Status != "firing" {
		t.Fatalf("received %+v", n)
	}
	a := n.Alerts[0]
	if a.Labels["alertname"] != "UnloopLoop" || a.Labels["policy"] != "agent-tools" || a.Labels["severity"] != "critical" || a.Labels["team"] != "agents" ||
		!strings.Contains(a.Annotations["summary"], "goes in circles") {
		t.Errorf("alert %+v", a)
	}
	before := endsAt(t, addr, "one")
	send(false, loop(event.Ongoing, "one", now))
	if after := endsAt(t, addr, "one"); !after.After(before) || after.Before(now.Add(3*time.Minute)) {
		t.Errorf("endsAt was %s, and %s after it was sent again", before, after)
	}
	send(true, loop(event.Resolved, "one", time.Now()), loop(event.Resolved, "two", time.Now()))
	for n.Status != "resolved" {
		n = receiveFrom(t, sent)
	}
	for _, a := range n.Alerts {
		if a.Status != "resolved" {
			t.Errorf("alert %+v", a)
		}
	}
}

func receiveFrom(t *testing.T, sent <-chan notification) notification {
	t.Helper()
	select {
	case n := <-sent:
		return n
	case <-time.After(30 * time.Second):
		t.Fatal("the Alertmanager sends nothing")
		return notification{}
	}
}

// endsAt returns when an alert ends if it is not sent again.
func endsAt(t *testing.T, addr, loop string) time.Time {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://%s/api/v2/alerts?filter=loop_id=%s", addr, loop))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var alerts []struct{ EndsAt time.Time }
	if err := json.NewDecoder(resp.Body).Decode(&alerts); err != nil || len(alerts) != 1 {
		t.Fatalf("%v: %+v", err, alerts)
	}
	return alerts[0].EndsAt
}
