package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/silence"
)

// inbox is a service that messages about loops go to.
type inbox struct {
	url string
	got chan string
}

// newInbox returns an inbox that takes everything.
func newInbox(t *testing.T) inbox {
	t.Helper()
	in := inbox{got: make(chan string, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		in.got <- string(body)
	}))
	t.Cleanup(server.Close)
	in.url = server.URL
	return in
}

// next returns the next message.
func (in inbox) next(t *testing.T) string {
	t.Helper()
	select {
	case body := <-in.got:
		return body
	case <-time.After(patience):
		t.Fatal("no message arrived")
		return ""
	}
}

// patience bounds waits that only a fault makes long.
const patience = 30 * time.Second

// notify has the notifier read a file of endpoints, and returns the file's name. Secrets
// are in files beside it.
func notify(t *testing.T, text string, secrets map[string]string) (file string, edit func(*system.Config)) {
	t.Helper()
	dir := t.TempDir()
	for name, secret := range secrets {
		writeFile(t, filepath.Join(dir, name), secret)
	}
	file = filepath.Join(dir, "notify.yaml")
	writeFile(t, file, strings.ReplaceAll(text, "DIR", dir))
	return file, func(cfg *system.Config) { cfg.Notifier.Notify = file }
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const slackFile = `
allow_cidr: [127.0.0.0/8]
endpoints:
  - {name: ops, slack: {url: {file: DIR/ops}}}
  - {name: others, slack: {url: {file: DIR/others}}}
routes:
  - {endpoints: [ops]}
  - {endpoints: [others], match: {policy: no-such-policy}}
`

// However often a loop is hit, it has a handful of events, and Slack gets one message about
// it and one when it ends.
func TestTenThousandHitsAreOneSlackMessageAndItsResolution(t *testing.T) {
	t.Parallel()
	const clients, hits = 8, 10_000
	ops, others := newInbox(t), newInbox(t)
	_, edit := notify(t, slackFile, map[string]string{"ops": ops.url, "others": others.url})
	s := start(t, echo(t), edit)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var hammering sync.WaitGroup
	for range clients {
		hammering.Go(func() { hammer(t, client, s.URL(), prompt("one loop"), hits/clients) })
	}
	hammering.Wait()
	if body := ops.next(t); !strings.Contains(body, "goes in circles and is stopped: the same prompt ") {
		t.Errorf("message %s", body)
	}
	nc := connect(t, s)
	loop := openLoop(t, s)
	if _, err := operator.Release(t.Context(), nc, loop); err != nil {
		t.Fatal(err)
	}
	if body := ops.next(t); !strings.Contains(body, "Loop ended") {
		t.Errorf("message %s", body)
	}
	if len(ops.got) != 0 || len(others.got) != 0 {
		t.Errorf("%d further messages, %d elsewhere", len(ops.got), len(others.got))
	}
	events := eventsOf(t, s)
	if events[event.Detected] != 1 || events[event.Resolved] != 1 || events[event.Ongoing] == 0 || events[event.Ongoing] > 6 {
		t.Errorf("events %v of %d hits", events, hits)
	}
}

// hammer sends a call n times, one after the other.
func hammer(t *testing.T, client *http.Client, url string, c call, n int) {
	t.Helper()
	for range n {
		req, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = c.header
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// eventsOf counts the events on the stream by their type.
func eventsOf(t *testing.T, s *system.System) map[event.Type]int {
	t.Helper()
	js, err := jetstream.New(connect(t, s))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "LOOP_EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("loop.>"))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[event.Type]int{}
	for subject, n := range info.State.Subjects {
		words := strings.SplitN(subject, ".", 3)
		counts[event.Type(words[0]+"."+words[1])] += int(n)
	}
	return counts
}

// openLoop returns the id of the only loop.
func openLoop(t *testing.T, s *system.System) string {
	t.Helper()
	js, err := jetstream.New(connect(t, s))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "LOOP_INCIDENTS")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for deadline := time.Now().Add(patience); len(keys) != 1; { // a record that is being written may be missed
		keys, err = kv.Keys(t.Context())
		keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, "live.") })
		if time.Now().After(deadline) {
			t.Fatalf("open loops %v, %v", keys, err)
		}
	}
	entry, err := kv.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	var loop openloop.Record
	if err := loop.Parse(entry.Value()); err != nil {
		t.Fatal(err)
	}
	return loop.LoopID
}

// A silenced loop is told of when its silence ends. The notifier hears of a silence within
// moments, so that one of several is there before its loop.
func TestASilencedLoopIsToldOfWhenTheSilenceEnds(t *testing.T) {
	t.Parallel()
	ops, others := newInbox(t), newInbox(t)
	_, edit := notify(t, slackFile, map[string]string{"ops": ops.url, "others": others.url})
	s := start(t, echo(t), edit)
	js, err := jetstream.New(connect(t, s))
	if err != nil {
		t.Fatal(err)
	}
	for name := 'a'; name <= 'z'; name++ {
		now := time.Now()
		quiet, err := silences.Add(t.Context(), js, silence.Silence{
			Matchers: match.Matchers{"policy": {"*"}}, Author: "ops", Start: now, End: now.Add(time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		statuses(t, s.URL(), prompt("a silenced loop "+string(name)), 9)
		ops.next(t)
		if time.Now().After(quiet.End) {
			return
		}
	}
	t.Error("silenced loops were told of")
}

func TestANewFileOfEndpointsIsFollowed(t *testing.T) {
	t.Parallel()
	ops, others := newInbox(t), newInbox(t)
	file, edit := notify(t, slackFile, map[string]string{"ops": ops.url, "others": others.url})
	s := start(t, echo(t), edit)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file+".new", strings.ReplaceAll(string(text), "no-such-policy", `"*"`))
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	// The file is read within moments: one of several loops shows it.
	for i, deadline := 0, time.Now().Add(patience); time.Now().Before(deadline); i++ {
		statuses(t, s.URL(), prompt("loop "+strings.Repeat("x", i+1)), 7)
		select {
		case <-time.After(50 * time.Millisecond):
		case body := <-others.got:
			if !strings.Contains(body, "goes in circles") {
				t.Errorf("message %s", body)
			}
			return
		}
	}
	t.Error("the new file was not followed")
}
