package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cejetstream "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/event"
)

// eventsPage has the examples that the tests below run.
const eventsPage = "../../docs/events.md"

// example returns the code block of a language in the page about events.
func example(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile(eventsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```"+language+"\n")
	code, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("%s has no example in %s", eventsPage, language)
	}
	return code
}

// loop has one agent send the same prompt until it is stopped.
func loop(t *testing.T, s *system.System, text string) {
	t.Helper()
	for range 6 {
		send(t, s.URL(), prompt(text))
	}
}

// loopsUntil has agents loop one after the other until an event came. One whose loop began
// while a machine under load lost the connection to NATS may have none.
func loopsUntil(t *testing.T, s *system.System, came <-chan struct{}) {
	t.Helper()
	for i := range 10 {
		loop(t, s, fmt.Sprintf("Try again, agent %d.", i))
		select {
		case <-came:
			return
		case <-time.After(10 * time.Second):
		}
	}
}

// lineOf starts an example and returns the first line that it prints after a loop. The
// loop begins once the example says on stderr that it follows events.
func lineOf(t *testing.T, s *system.System, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if first, err := bufio.NewReader(said).ReadString('\n'); err != nil || first != "following\n" {
		t.Fatalf("the example says %q (%v), want that it is following", first, err)
	}
	var line string
	came := make(chan struct{})
	go func() {
		line, err = bufio.NewReader(out).ReadString('\n')
		close(came)
	}()
	loopsUntil(t, s, came)
	_ = cmd.Process.Kill() // an example that prints nothing ends here
	<-came
	if err != nil {
		t.Fatalf("read what the example prints: %v", err)
	}
	return strings.TrimSpace(line)
}

func wantDetected(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) != 4 || words[0] != string(event.Detected) || words[2] != "default" || words[3] != "6" {
		t.Errorf("the example prints %q, want the type, id, policy and count of a loop", line)
	}
}

func TestNodeExampleReadsCloudEvents(t *testing.T) {
	t.Parallel()
	node, modules := need(t, "UNLOOP_TEST_NODE"), need(t, "UNLOOP_TEST_NODE_MODULES")
	s := start(t, serve(t, greeting).url)
	dir := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "example.mjs")
	if err := os.WriteFile(script, []byte(example(t, "js")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "NATS_URL=" + s.NATSURL()}
	wantDetected(t, lineOf(t, s, cmd))
}

func TestPythonExampleReadsServerSentEvents(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	s := start(t, serve(t, greeting).url)
	script := filepath.Join(t.TempDir(), "example.py")
	if err := os.WriteFile(script, []byte(example(t, "python")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "UNLOOP_ADMIN=" + s.AdminURL()}
	wantDetected(t, lineOf(t, s, cmd))
}

// follow is the example in Go.
func follow(ctx context.Context, url string, handle func(jetstream.Msg) error) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, "LOOP_EVENTS", jetstream.ConsumerConfig{
		Durable: "my-service", DeliverPolicy: jetstream.DeliverNewPolicy, FilterSubject: "loop.>",
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		message, err := messages.Next()
		if err != nil {
			return err // jetstream.ErrMsgIteratorClosed once ctx is done
		}
		if err := handle(message); err != nil {
			return err
		}
		if err := message.Ack(); err != nil {
			return err
		}
	}
}

func TestGoExampleReadsCloudEvents(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("subscriber_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), example(t, "go")) {
		t.Errorf("the example in %s is not the one that is tested here", eventsPage)
	}
	s := start(t, serve(t, greeting).url)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	seen := errors.New("seen")
	var got string
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		err = follow(ctx, s.NATSURL(), func(message jetstream.Msg) error {
			read := cejetstream.NewMessage(&nats.Msg{Subject: message.Subject(), Header: message.Headers(), Data: message.Data()})
			e, err := binding.ToEvent(ctx, read)
			if err != nil {
				return err
			}
			var body event.Event
			if err := e.DataAs(&body); err != nil {
				return err
			}
			got = fmt.Sprintln(e.Type(), e.ID(), body.Data.Policy, body.Data.HitCount)
			return errors.Join(e.Validate(), seen)
		})
	}()
	waitForConsumer(ctx, t, s, "my-service")
	loopsUntil(t, s, followed)
	if <-followed; !errors.Is(err, seen) {
		t.Fatal(err)
	}
	wantDetected(t, got)
}

// waitForConsumer returns once the stream of events has a consumer: what is published from
// then on reaches it.
func waitForConsumer(ctx context.Context, t *testing.T, s *system.System, name string) {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	made, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.CREATED.LOOP_EVENTS." + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Consumer(ctx, "LOOP_EVENTS", name); err == nil {
		return
	}
	if _, err := made.NextMsgWithContext(ctx); err != nil {
		t.Fatalf("wait for the consumer %s: %v", name, err)
	}
}
