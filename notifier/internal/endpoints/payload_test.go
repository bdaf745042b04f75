package endpoints

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/notifier/internal/sink/email"
	"github.com/unloop/unloop/schemas/event"
)

// payload sends a message to a service of a kind, and returns its body as JSON.
func payload[T any](t *testing.T, kind string, m *sink.Message) T {
	t.Helper()
	for _, s := range services {
		if s.kind != kind {
			continue
		}
		p := newPeerFor(t, s.mail)
		if err := build(t, s.config, p).Sink.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		var v T
		body := <-p.got
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return v
	}
	panic("no service " + kind)
}

func units(s string) int { return len(utf16.Encode([]rune(s))) }

// hostile is a message whose names try to mention people and to make links.
func hostile() *sink.Message {
	m := render.Example()
	m.Events[0].TenantID = "<!channel> @everyone [x](https://evil.example) *b*\n\u202etxt"
	return m
}

// linked is a message whose names look like links.
func linked() *sink.Message {
	m := render.Example()
	m.Events[0].TenantID, m.Events[0].Data.Model, m.Events[0].Data.Policy = "https://evil.example/t", "http://evil.example/m", "discord.gg/evil"
	return m
}

// Names make no links, and are read as they are.
func TestNamesMakeNoLinksInChats(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`https?://|evil\.example|discord\.gg`)
	type text struct {
		Type, Text string
		Verbatim   bool
	}
	slack := payload[struct {
		Text   string
		Blocks []struct {
			Text             text
			Fields, Elements []text
		}
	}](t, "slack", linked())
	if links.MatchString(slack.Text) {
		t.Errorf("Slack makes links of %q", slack.Text)
	}
	shown := ""
	for _, b := range slack.Blocks {
		for _, part := range append(append(b.Fields, b.Elements...), b.Text) {
			shown += part.Text
			if links.MatchString(part.Text) && (part.Type != "mrkdwn" || !part.Verbatim) {
				t.Errorf("Slack makes links of %+v", part)
			}
		}
	}
	if !strings.Contains(shown, "https://evil.example/t") || !strings.Contains(shown, "http://evil.example/m") {
		t.Errorf("the names are missing in %q", shown)
	}
	discord := payload[map[string]any](t, "discord", linked())
	body, err := json.Marshal(discord)
	if err != nil {
		t.Fatal(err)
	}
	if links.Match(body) || !strings.Contains(string(body), `http\\://evil\\.example/m`) {
		t.Errorf("Discord makes links of %s", body)
	}
}

// Each chat, alert and mail links to the loop's place on the dashboard, if people reach that.
func TestMessagesLinkToTheDashboard(t *testing.T) {
	t.Parallel()
	const page = "https://unloop.example.com"
	with, without := render.Example(), render.Example()
	with.Page = page + "/"
	link := page + "/#loop=" + with.Events[0].Data.LoopID
	for kind, want := range map[string]string{
		"slack": "<" + link + "|Look at it>", "discord": `"url":"` + link + `"`, "teams": "[the dashboard](" + link + ")", "pagerduty": `"client_url":"` + link + `"`,
	} {
		texts := map[*sink.Message]string{}
		for _, m := range []*sink.Message{with, without} {
			var body bytes.Buffer
			enc := json.NewEncoder(&body)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(payload[map[string]any](t, kind, m)); err != nil {
				t.Fatal(err)
			}
			texts[m] = body.String()
		}
		if !strings.Contains(texts[with], want) || strings.Contains(texts[without], "#loop=") {
			t.Errorf("%s: %s\nand without a page: %s", kind, texts[with], texts[without])
		}
	}
	if text := email.Text(with); !strings.Contains(text, "  Look: "+link+"\n") || strings.Contains(email.Text(without), "Look") {
		t.Errorf("mail: %s", text)
	}
}

func TestSlackMessages(t *testing.T) {
	t.Parallel()
	type text struct{ Type, Text string }
	type message struct {
		Text   string
		Blocks []struct {
			Type     string
			Text     text
			Fields   []text
			Elements []text
		}
	}
	for _, m := range []*sink.Message{render.Example(), hostile(), large(1), large(100)} {
		got := payload[message](t, "slack", m)
		if len(got.Blocks) == 0 || len(got.Blocks) > 50 || got.Blocks[0].Type != "header" || units(got.Blocks[0].Text.Text) > 150 || got.Text == "" {
			t.Errorf("message %+v", got)
		}
		for _, b := range got.Blocks {
			if len(b.Fields) > 10 || units(b.Text.Text) > 3000 {
				t.Errorf("block %+v", b)
			}
			for _, f := range append(b.Fields, b.Elements...) {
				if units(f.Text) > 2000 || strings.Contains(f.Text, "<!") || strings.ContainsAny(f.Text, "\u202e") {
					t.Errorf("field %q", f.Text)
				}
			}
		}
		if strings.Contains(got.Text, "<!") {
			t.Errorf("text %q", got.Text)
		}
	}
}

func TestDiscordMessages(t *testing.T) {
	t.Parallel()
	type message struct {
		Content  string
		Mentions struct{ Parse []string } `json:"allowed_mentions"`
		Embeds   []struct {
			Title  string
			Color  int
			Fields []struct{ Name, Value string }
		}
	}
	for _, m := range []*sink.Message{render.Example(), hostile(), large(1), large(100)} {
		got := payload[message](t, "discord", m)
		total := 0
		for _, e := range got.Embeds {
			total += units(e.Title)
			for _, f := range e.Fields {
				total += units(f.Name) + units(f.Value)
				if units(f.Value) > 1024 || units(f.Name) > 256 {
					t.Errorf("field %+v", f)
				}
			}
			if len(e.Fields) > 25 || units(e.Title) > 256 {
				t.Errorf("embed %+v", e)
			}
		}
		if units(got.Content) > 2000 || total > 6000 || len(got.Embeds) == 0 || len(got.Embeds) > 10 || got.Mentions.Parse == nil || len(got.Mentions.Parse) != 0 {
			t.Errorf("%d characters of content, %d in %d embeds, mentions %v", units(got.Content), total, len(got.Embeds), got.Mentions.Parse)
		}
	}
}

// Discord says in the body how long to wait, more exactly than in the header.
func TestDiscordSaysHowLongToWait(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"message":"You are being rate limited.","retry_after":1.5,"global":false}`)
	}))
	t.Cleanup(server.Close)
	b := build(t, `discord: {url: {env: URL}}`, &peer{addr: server.Listener.Addr().String()})
	wantError(t, b.Sink.Send(t.Context(), render.Example()), sink.Error{Kind: sink.Retry, Status: 429, After: 1500 * time.Millisecond})
}

func TestPagerDutyTriggersAndResolvesByTheLoop(t *testing.T) {
	t.Parallel()
	type message struct {
		Key     string `json:"routing_key"`
		Action  string `json:"event_action"`
		Dedup   string `json:"dedup_key"`
		Payload struct{ Summary, Source, Severity string }
	}
	m := render.Example()
	got := payload[message](t, "pagerduty", m)
	if got.Key != "s3cretkey" || got.Action != "trigger" || got.Dedup != m.Events[0].Data.LoopID || got.Payload.Severity != "critical" || got.Payload.Summary == "" {
		t.Errorf("message %+v", got)
	}
	m.Events[0].Type, m.Resolved = event.Resolved, true
	if got := payload[message](t, "pagerduty", m); got.Action != "resolve" || got.Dedup != m.Events[0].Data.LoopID {
		t.Errorf("message %+v", got)
	}
	m = large(100)
	m.Key = strings.Repeat("k", 1000)
	if got := payload[message](t, "pagerduty", m); len(got.Dedup) > 255 || units(got.Payload.Summary) > 1024 {
		t.Errorf("message %+v", got)
	}
}

func TestTeamsMessagesAreAdaptiveCards(t *testing.T) {
	t.Parallel()
	type message struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version string
				Body          []struct {
					Type, Text, Color string
				}
			}
		}
	}
	for _, m := range []*sink.Message{render.Example(), hostile(), large(100)} {
		got := payload[message](t, "teams", m)
		if got.Type != "message" || len(got.Attachments) != 1 || got.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
			t.Fatalf("message %+v", got)
		}
		card := got.Attachments[0].Content
		if card.Type != "AdaptiveCard" || card.Version != "1.4" || len(card.Body) < 3 || card.Body[0].Color != "Attention" || strings.Contains(card.Body[0].Text, " [x](") {
			t.Errorf("card %+v", card)
		}
	}
}

func TestMailsOfALoopFormAThread(t *testing.T) {
	t.Parallel()
	p := smtpPeer(t)
	b := build(t, `email: {server: "%s", security: none, from: "Unloop <unloop@example.com>", to: [ops@example.com, Dev <dev@example.com>]}`, p)
	var mails []*mail.Message
	m := render.Example()
	for range 2 {
		if err := b.Sink.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		parsed, err := mail.ReadMessage(strings.NewReader(string(<-p.got)))
		if err != nil {
			t.Fatal(err)
		}
		mails = append(mails, parsed)
		m.ID, m.Events[0].Type, m.Resolved = "evt-2", event.Resolved, true
	}
	one, two := mails[0].Header, mails[1].Header
	if one.Get("Message-ID") == two.Get("Message-ID") || one.Get("References") != two.Get("References") || one.Get("References") == "" {
		t.Errorf("%v and %v", one, two)
	}
	if !strings.Contains(two.Get("Subject"), "Resolved") || one.Get("To") != "<ops@example.com>, \"Dev\" <dev@example.com>" || one.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("%v", two)
	}
	body, err := io.ReadAll(mails[0].Body)
	if err != nil || !strings.Contains(string(body), "unloop loops release") {
		t.Errorf("%v: %s", err, body)
	}
}
