// Package teams sends messages to Microsoft Teams through a Workflows webhook, as Adaptive
// Cards (https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/).
//
// Teams accepts messages of at most 28 KB.
package teams

import (
	"encoding/json"
	"net"
	"strings"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
)

// New returns a sink for the workflow's URL. The template, if not nil, writes the text of
// the card.
func New(url string, template *render.Template, dialer *net.Dialer) *outbound.Hook {
	return outbound.NewHook(dialer, url, func(m *sink.Message) ([]byte, error) { return body(m, template) })
}

type message struct {
	Type        string       `json:"type"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	ContentType string `json:"contentType"`
	Content     card   `json:"content"`
}

type card struct {
	Schema  string            `json:"$schema"`
	Type    string            `json:"type"`
	Version string            `json:"version"`
	Body    []element         `json:"body"`
	Teams   map[string]string `json:"msteams"`
}

type element struct {
	Type   string `json:"type"`
	Text   string `json:"text,omitempty"`
	Size   string `json:"size,omitempty"`
	Weight string `json:"weight,omitempty"`
	Color  string `json:"color,omitempty"`
	Wrap   bool   `json:"wrap,omitempty"`
	Facts  []fact `json:"facts,omitempty"`
}

type fact struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

func wrap(body []element) ([]byte, error) {
	return json.Marshal(message{"message", []attachment{{"application/vnd.microsoft.card.adaptive", card{
		"http://adaptivecards.io/schemas/adaptive-card.json", "AdaptiveCard", "1.4", body, map[string]string{"width": "Full"},
	}}}})
}

// body returns the card, with as many loops as fit.
func body(m *sink.Message, template *render.Template) ([]byte, error) {
	if template != nil {
		return templated(m, template)
	}
	elements := []element{{Type: "TextBlock", Text: escape(render.Title(m)), Size: "Large", Weight: "Bolder", Color: color(m), Wrap: true}}
	return render.Fit(len(m.Events), func(shown int) ([]byte, error) {
		all := elements[:1:1]
		for i := range m.Events[:shown] {
			all = append(all, loop(m, &m.Events[i])...)
		}
		if more := len(m.Events) - shown; more > 0 {
			all = append(all, element{Type: "TextBlock", Text: render.More(more), Wrap: true})
		}
		return wrap(all)
	})
}

func templated(m *sink.Message, template *render.Template) ([]byte, error) {
	written, err := template.Render(m)
	if err != nil {
		return nil, err
	}
	for most := sink.MaxBody; ; most /= 2 {
		body, err := wrap([]element{{Type: "TextBlock", Text: render.Cut(written, most), Wrap: true}})
		if err != nil || len(body) <= sink.MaxBody {
			return body, err
		}
	}
}

func loop(m *sink.Message, e *event.Event) []element {
	facts := []fact{}
	for _, f := range render.Fields(e) {
		facts = append(facts, fact{f.Name, escape(f.Value)})
	}
	if link := render.Link(m, e); link != "" {
		facts = append(facts, fact{"Look", "[the dashboard](" + link + ")"})
	}
	if release := render.Release(e); release != "" {
		facts = append(facts, fact{"Release", escape(release)})
	}
	return []element{{Type: "TextBlock", Text: escape(render.Summary(e)), Weight: "Bolder", Wrap: true}, {Type: "FactSet", Facts: facts}}
}

func color(m *sink.Message) string {
	if m.Resolved {
		return "Good"
	}
	return "Attention"
}

// escape escapes Markdown.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "`", "\\`").Replace(s)
}
