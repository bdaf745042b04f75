// Package discord sends messages to a channel through a Discord webhook
// (https://discord.com/developers/docs/resources/webhook#execute-webhook).
//
// It observes Discord's limits: 2000 characters of content, 6000 in all embeds, 256 in a title,
// 1024 in a field, and 25 fields.
package discord

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
)

const (
	maxContent = 2000
	maxTitle   = 256
	maxField   = 256
	maxTotal   = 6000
	maxEmbeds  = 10

	red   = 0xd92d20
	amber = 0xf79009
	green = 0x12b76a
)

// Discord is one webhook.
type Discord struct {
	*outbound.Client
	url      string
	template *render.Template
}

// New returns a sink for the webhook's URL. The template, if not nil, writes the content.
func New(url string, template *render.Template, dialer *net.Dialer) *Discord {
	return &Discord{outbound.NewClient(dialer), url, template}
}

// Send posts the message.
func (d *Discord) Send(ctx context.Context, m *sink.Message) error {
	payload, err := d.payload(m)
	if err != nil {
		return sink.Rejectf("the message cannot be written: %s", err)
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return sink.Rejectf("the message cannot be written")
	}
	answer, err := d.Post(ctx, d.url, http.Header{}, body)
	if limited, ok := errors.AsType[*sink.Error](err); ok && limited.Status == http.StatusTooManyRequests {
		limited.After = max(limited.After, retryAfter(answer))
	}
	return err
}

// retryAfter returns the wait that the body of a 429 asks for, in seconds with a fraction.
func retryAfter(body []byte) time.Duration {
	var limited struct {
		RetryAfter float64 `json:"retry_after"`
	}
	if json.Unmarshal(body, &limited) != nil {
		return 0
	}
	return time.Duration(min(max(limited.RetryAfter, 0), 86_400) * float64(time.Second))
}

type message struct {
	Content  string   `json:"content"`
	Embeds   []embed  `json:"embeds,omitempty"`
	Mentions mentions `json:"allowed_mentions"`
}

// mentions without types keeps text from mentioning anyone.
type mentions struct {
	Parse []string `json:"parse"`
}

type embed struct {
	Title     string  `json:"title"`
	URL       string  `json:"url,omitempty"`
	Color     int     `json:"color"`
	Fields    []field `json:"fields,omitempty"`
	Timestamp string  `json:"timestamp,omitempty"`
}

type field struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Inline bool   `json:"inline"`
}

func (d *Discord) payload(m *sink.Message) (message, error) {
	p := message{Mentions: mentions{[]string{}}}
	if d.template != nil {
		written, err := d.template.Render(m)
		p.Content = render.Cut(written, maxContent)
		return p, err
	}
	p.Content = render.Cut(escape(render.Title(m)), maxContent/2)
	room := maxTotal
	for i := range m.Events {
		e, size := loop(m, &m.Events[i])
		if room -= size; room < 0 || len(p.Embeds) == maxEmbeds {
			break
		}
		p.Embeds = append(p.Embeds, e)
	}
	if more := len(m.Events) - len(p.Embeds); more > 0 {
		p.Content += "\n" + render.More(more)
	}
	return p, nil
}

// loop returns the embed of a loop and its number of characters.
func loop(m *sink.Message, ev *event.Event) (e embed, size int) {
	e = embed{Title: render.Cut(escape(render.Summary(ev)), maxTitle), URL: render.Link(m, ev), Color: color(ev)}
	if !ev.Timestamp.IsZero() {
		e.Timestamp = ev.Timestamp.UTC().Format(time.RFC3339)
	}
	size = len(e.Title)
	for _, f := range render.Fields(ev) {
		v := field{f.Name, render.Cut(escape(f.Value), maxField), true}
		e.Fields = append(e.Fields, v)
		size += len(v.Name) + len(v.Value)
	}
	if release := render.Release(ev); release != "" {
		v := field{"Release", "`" + strings.ReplaceAll(release, "`", "'") + "`", false}
		e.Fields = append(e.Fields, v)
		size += len(v.Name) + len(v.Value)
	}
	return e, size
}

func color(e *event.Event) int {
	switch {
	case e.Type == event.Resolved:
		return green
	case e.Severity() == event.Critical:
		return red
	default:
		return amber
	}
}

// escape escapes Markdown, and keeps URLs and invitations from becoming links.
func escape(s string) string {
	return strings.NewReplacer("://", `\://`, ".", `\.`, `\`, `\\`, "*", `\*`, "_", `\_`, "~", `\~`, "`", "\\`", "|", `\|`, ">", `\>`, "[", `\[`, "]", `\]`, "#", `\#`).Replace(s)
}
