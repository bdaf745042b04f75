// Package slack sends messages to a channel through a Slack incoming webhook
// (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).
//
// It observes the limits of Block Kit: 50 blocks, 150 characters in a header, 3000 in a text,
// and 10 fields of 2000.
package slack

import (
	"encoding/json"
	"net"
	"strings"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
)

const (
	maxHeader = 150
	maxText   = 3000
	maxField  = 400
	maxFields = 10
	// maxTemplate bounds the text of a template, so that its JSON fits.
	maxTemplate = sink.MaxBody / 3
	// maxLoops bounds the shown loops, so that their blocks stay under 50.
	maxLoops = 10
)

// New returns a sink for the webhook's URL. The template, if not nil, writes the text in
// Slack's mrkdwn.
func New(url string, template *render.Template, dialer *net.Dialer) *outbound.Hook {
	return outbound.NewHook(dialer, url, func(m *sink.Message) ([]byte, error) {
		return render.Fit(min(len(m.Events), maxLoops), func(shown int) ([]byte, error) { return body(m, template, shown) })
	})
}

type message struct {
	// Text is for notifications and screen readers.
	Text        string  `json:"text"`
	Blocks      []block `json:"blocks,omitempty"`
	UnfurlLinks bool    `json:"unfurl_links"`
}

type block struct {
	Type     string `json:"type"`
	Text     *text  `json:"text,omitempty"`
	Fields   []text `json:"fields,omitempty"`
	Elements []text `json:"elements,omitempty"`
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
	// Verbatim keeps Slack from turning URLs into links and names into mentions.
	Verbatim bool `json:"verbatim,omitempty"`
}

func mrkdwn(s string, most int) text { return text{"mrkdwn", render.Cut(s, most), true} }

// body returns the message with the first shown loops.
func body(m *sink.Message, template *render.Template, shown int) ([]byte, error) {
	if template != nil {
		written, err := template.Render(m)
		if err != nil {
			return nil, err
		}
		return json.Marshal(message{Text: render.Cut(written, maxTemplate)})
	}
	title := icon(m) + " " + render.Unlinked(render.Title(m))
	p := message{Text: escape(render.Cut(title, maxText/2))}
	p.Blocks = append(p.Blocks, block{Type: "header", Text: &text{Type: "plain_text", Text: render.Cut(title, maxHeader)}})
	for i := range m.Events[:shown] {
		p.Blocks = append(p.Blocks, loop(m, &m.Events[i])...)
	}
	if more := len(m.Events) - shown; more > 0 {
		p.Blocks = append(p.Blocks, block{Type: "context", Elements: []text{mrkdwn(render.More(more), maxText)}})
	}
	return json.Marshal(p)
}

func icon(m *sink.Message) string {
	if m.Resolved {
		return ":white_check_mark:"
	}
	return ":repeat:"
}

// loop returns the blocks of one loop.
func loop(m *sink.Message, e *event.Event) []block {
	b := block{Type: "section"}
	for _, f := range render.Fields(e) {
		if len(b.Fields) == maxFields {
			break
		}
		b.Fields = append(b.Fields, mrkdwn("*"+f.Name+"*\n"+escape(f.Value), maxField))
	}
	summary := mrkdwn(escape(render.Summary(e)), maxText)
	b.Text = &summary
	blocks := []block{b}
	var context []text
	if link := render.Link(m, e); link != "" {
		context = append(context, mrkdwn("<"+escape(link)+"|Look at it>", maxText))
	}
	if release := render.Release(e); release != "" {
		context = append(context, mrkdwn("Release: `"+escape(release)+"`", maxText))
	}
	if len(context) > 0 {
		blocks = append(blocks, block{Type: "context", Elements: context})
	}
	return blocks
}

// escape escapes text as Slack requires, so that names can't mention channels or make links.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
