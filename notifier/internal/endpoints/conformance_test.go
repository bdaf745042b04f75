package endpoints

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
)

// services are all kinds, with the configuration of an endpoint at a peer. %s is the
// peer's address.
var services = []struct {
	kind, config string
	mail         bool
}{
	{kind: "webhook", config: `webhook: {url_from: {env: URL}, secrets: [{env: SIGNING}]}`},
	{kind: "slack", config: `slack: {url: {env: URL}}`},
	{kind: "discord", config: `discord: {url: {env: URL}}`},
	{kind: "teams", config: `teams: {url: {env: URL}}`},
	{kind: "pagerduty", config: `pagerduty: {routing_key: {env: KEY}, url: "http://%s/v2/enqueue"}`},
	{kind: "alertmanager", config: `alertmanager: {url: "http://%s", username: unloop, password: {env: KEY}}`},
	{kind: "email", config: `email: {server: "%s", security: none, from: unloop@example.com, to: [ops@example.com]}`, mail: true},
}

func TestEveryKindIsInTheSuite(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, k := range kinds() {
		want = append(want, k.name)
	}
	for _, s := range services {
		got = append(got, s.kind)
	}
	diff(t, got, want)
}

const aSecret = "whsec_czNjcmV0LXMzY3JldC1zM2NyZXQtczNjcmV0" // s3cret-…

// build returns the endpoint of one service at a peer.
func build(t *testing.T, config string, p *peer) Built {
	t.Helper()
	if strings.Contains(config, "%s") {
		config = fmt.Sprintf(config, p.addr)
	}
	env := map[string]string{"URL": "http://" + p.addr + "/s3cretpath?token=s3crettoken", "KEY": "s3cretkey", "SIGNING": aSecret}
	all, err := Load([]byte("allow_cidr: [127.0.0.0/8]\nendpoints: [{name: one, "+config+"}]"), nil, environment(env, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(all) })
	return all[0]
}

func environment(env, files map[string]string) Environment {
	return Environment{
		Getenv: func(name string) string { return env[name] },
		ReadFile: func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, errors.New("no such file")
		},
	}
}

// large is a message about so many loops with long names.
func large(n int) *sink.Message {
	m := *render.Example()
	first := m.Events[0]
	m.Events, m.Key = nil, "policy=agent-tools"
	for i := range n {
		e := first
		e.Data.LoopID = fmt.Sprintf("%s-%d", strings.Repeat("i", 400), i)
		e.Data.Policy = strings.Repeat("a policy of many words & <signs> 😀 ", 40)
		e.TenantID, e.ProjectID, e.Data.Model = strings.Repeat("t", 500), strings.Repeat("😀", 500), strings.Repeat("*m*", 500)
		for range 20 {
			e.Data.Findings = append(e.Data.Findings, event.Finding{Detector: "tool", Tool: strings.Repeat("tool", 100), Excerpt: strings.Repeat("x", 200)})
		}
		m.Events = append(m.Events, e)
	}
	return &m
}

// The suite: what each sink does with each answer of its service.
func TestSinks(t *testing.T) {
	t.Parallel()
	for _, s := range services {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			for name, check := range map[string]func(*testing.T, Built, *peer, bool){
				"answers": answers, "hang": hang, "cancelled": cancelled, "flood": flood, "large message": largeMessage,
				"resolution": resolution, "closed": closed, "words": words, "excerpt": quotes, "test": saysTest,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					p := newPeerFor(t, s.mail)
					check(t, build(t, s.config, p), p, s.mail)
				})
			}
		})
	}
}

func newPeerFor(t *testing.T, mail bool) *peer {
	t.Helper()
	if mail {
		return smtpPeer(t)
	}
	return httpPeer(t)
}

func answers(t *testing.T, b Built, p *peer, mail bool) {
	for _, tt := range []struct {
		does         behaviour
		want         *sink.Error
		mail         int // status of mail servers
		onlyRequests bool
	}{
		{accepts, nil, 0, false},
		{refuses, &sink.Error{Kind: sink.Reject, Status: 400}, 550, false},
		{busy, &sink.Error{Kind: sink.Retry, Status: 429, After: 7 * time.Second}, 451, false},
		{broken, &sink.Error{Kind: sink.Retry, Status: 500}, 421, false},
		{moved, &sink.Error{Kind: sink.Retry, Status: 301}, 0, true},
		{gone, &sink.Error{Kind: sink.Gone, Status: 410}, 0, true},
		{cuts, &sink.Error{Kind: sink.Retry}, 0, false},
		{accepts, nil, 0, false},
	} {
		if mail && tt.onlyRequests {
			continue
		}
		p.behave(tt.does)
		err := b.Sink.Send(t.Context(), render.Example())
		if tt.want == nil {
			if err != nil {
				t.Errorf("behaviour %d: %v", tt.does, err)
			}
			continue
		}
		want := *tt.want
		if mail {
			want.Status, want.After = tt.mail, 0
		}
		wantError(t, err, want)
	}
}

func wantError(t *testing.T, err error, want sink.Error) {
	t.Helper()
	var got *sink.Error
	if !errors.As(err, &got) {
		t.Errorf("got %v, want %+v", err, want)
		return
	}
	if got.Kind != want.Kind || got.Status != want.Status || got.After != want.After || got.Reason == "" {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, secret := range []string{"s3cret", "127.0.0.1", "http:", "acme"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error %q has %q", err, secret)
		}
	}
}

func hang(t *testing.T, b Built, p *peer, _ bool) {
	p.behave(hangs)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	wantError(t, b.Sink.Send(ctx, render.Example()), sink.Error{Kind: sink.Retry})
}

func cancelled(t *testing.T, b Built, p *peer, mail bool) {
	p.behave(hangs)
	ctx, cancel := context.WithCancel(t.Context())
	if mail {
		time.AfterFunc(50*time.Millisecond, cancel)
	} else {
		go func() { <-p.got; cancel() }()
	}
	if err := b.Sink.Send(ctx, render.Example()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// A service that answers 10 MB is read in part: a success stays one, and no more than that
// part is taken in.
func flood(t *testing.T, b Built, p *peer, mail bool) {
	p.behave(floods)
	err := b.Sink.Send(t.Context(), render.Example())
	if mail {
		wantError(t, err, sink.Error{Kind: sink.Retry})
	} else if err != nil {
		t.Error(err)
	}
}

func largeMessage(t *testing.T, b Built, p *peer, _ bool) {
	for _, n := range []int{1, 3, 100} {
		if err := b.Sink.Send(t.Context(), large(n)); err != nil {
			t.Fatalf("%d loops: %v", n, err)
		}
		for len(p.got) > 0 {
			body := <-p.got
			if _, text, ok := bytes.Cut(body, []byte("\r\n\r\n")); ok && b.Kind == "email" {
				body = text
			}
			if len(body) > sink.MaxBody {
				t.Errorf("%d loops: body of %d bytes", n, len(body))
			}
		}
	}
}

// words checks that a message says what was found, by the catalogue's words or, for
// programs, by the names of detector and rule.
func words(t *testing.T, b Built, p *peer, _ bool) {
	for _, k := range finding.Catalogue() {
		m := *render.Example()
		d := &m.Events[0].Data
		d.Detector, d.HitCount, d.Findings = k.Detector, 17, []event.Finding{{Detector: k.Detector, Rule: k.Rule, Action: d.Action, HitCount: 17}}
		if err := b.Sink.Send(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
		body := received(t, b, p)
		raw := strings.Contains(body, `"detector":"`+k.Detector+`"`) && (k.Rule == "" || strings.Contains(body, `"rule":"`+k.Rule+`"`))
		if want := d.Facts().Text(); !strings.Contains(body, want[1:]) && !raw {
			t.Fatalf("%s %s: want %q in %s", k.Detector, k.Rule, want, body)
		}
	}
}

// received returns the message that a peer got, decoded if it is a mail.
func received(t *testing.T, b Built, p *peer) string {
	t.Helper()
	body := <-p.got
	if b.Kind != "email" {
		return string(body)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quotes checks that a message has the excerpt of an event.
func quotes(t *testing.T, b Built, p *peer, _ bool) {
	m := *render.Example()
	m.Events[0].Data.Findings = []event.Finding{{Detector: "prompt", Action: "reject", Excerpt: "Summarize the quarterly report"}}
	if err := b.Sink.Send(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	if body := received(t, b, p); !strings.Contains(body, "Summarize the quarterly report") {
		t.Errorf("no excerpt in %s", body)
	}
}

// saysTest checks that a test message, and its end, say what they are, and offer no command
// and no link for a loop that does not exist.
func saysTest(t *testing.T, b Built, p *peer, _ bool) {
	m := *render.Example()
	m.Page, m.Events[0].Test = "https://unloop.example.com", true
	for _, m.Resolved = range []bool{false, true} {
		if m.Resolved {
			m.Events[0].Type = event.Resolved
		}
		if err := b.Sink.Send(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
		body := received(t, b, p)
		says := strings.Contains(strings.ToLower(body), "test message") || strings.Contains(body, `"test":true`)
		if ends := m.Resolved && b.Kind == "pagerduty"; !says && !ends { // which only closes the incident
			t.Errorf("does not say that it is a test: %s", body)
		}
		if strings.Contains(body, "loops release") || strings.Contains(body, "#loop=") {
			t.Errorf("leads to a loop that does not exist: %s", body)
		}
	}
}

func resolution(t *testing.T, b Built, p *peer, _ bool) {
	m := *render.Example()
	m.Events[0].Type, m.Resolved = event.Resolved, true
	if err := b.Sink.Send(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	if body := string(<-p.got); !strings.Contains(strings.ToLower(body), "resolve") && !strings.Contains(body, "ended") {
		t.Errorf("the message does not tell of the end: %s", body)
	}
}

func closed(t *testing.T, b Built, _ *peer, _ bool) {
	b.Sink.Close()
	b.Sink.Close()
	if err := b.Sink.Send(t.Context(), render.Example()); err != nil {
		t.Errorf("Close takes more than idle connections: %v", err)
	}
}

// What is not allowed is refused when it is dialled, whatever name led there.
func TestNoSinkReachesPrivateAddresses(t *testing.T) {
	t.Parallel()
	for _, s := range services {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			p := newPeerFor(t, s.mail)
			b := rebind(t, s.config, p)
			err := b.Sink.Send(t.Context(), render.Example())
			wantError(t, err, sink.Error{Kind: sink.Retry})
			if err == nil || !strings.Contains(err.Error(), "private address") {
				t.Errorf("got %v, want the refusal of a private address", err)
			}
			if len(p.got) != 0 {
				t.Error("a message reached the private address")
			}
		})
	}
}

// rebind returns an endpoint by a name that leads to the peer when it is dialled.
func rebind(t *testing.T, config string, p *peer) Built {
	t.Helper()
	b, _ := named(t, config, p, nil, "127.0.0.1")
	return b
}

// named returns an endpoint whose host is a name, and what changes the name's address.
func named(t *testing.T, config string, p *peer, allowed []netip.Prefix, addr string) (Built, func(string)) {
	t.Helper()
	_, port, _ := strings.Cut(p.addr, ":")
	host := "hooks.example.com:" + port
	if strings.Contains(config, "%s") {
		config = fmt.Sprintf(config, host)
	}
	resolver, change := names(t, addr)
	env := map[string]string{"URL": "http://" + host + "/s3cretpath", "KEY": "s3cretkey", "SIGNING": aSecret}
	all, err := load([]byte("endpoints: [{name: one, "+config+"}]"), allowed, environment(env, nil), resolver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(all) })
	return all[0], change
}

// A name that led to an allowed address leads to a private one with the next connection.
func TestANameThatChangesItsAddressIsCheckedAtEachConnection(t *testing.T) {
	t.Parallel()
	for _, s := range services {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			p := newPeerFor(t, s.mail)
			b, change := named(t, s.config, p, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, "127.0.0.1")
			if err := b.Sink.Send(t.Context(), render.Example()); err != nil {
				t.Fatal(err)
			}
			b.Sink.Close()
			for _, addr := range []string{"127.0.0.2", "169.254.169.254", "10.0.0.1", "::1", "fd00:ec2::254", "fe80::1", "64:ff9b::7f00:1", "::ffff:10.0.0.1"} {
				change(addr)
				err := b.Sink.Send(t.Context(), render.Example())
				if err == nil || !strings.Contains(err.Error(), "private address") {
					t.Errorf("%s: got %v, want the refusal of a private address", addr, err)
				}
			}
		})
	}
}
