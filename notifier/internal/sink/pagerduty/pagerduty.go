// Package pagerduty sends messages to PagerDuty's Events API v2
// (https://developer.pagerduty.com/docs/send-alert-event). A loop triggers an incident and
// its end resolves it. The deduplication key is the message's key: the loop's id unless loops
// are grouped.
package pagerduty

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/url"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
)

// DefaultURL is the address of the service in the United States.
const DefaultURL = "https://events.pagerduty.com/v2/enqueue"

const (
	maxSummary = 1024
	maxDedup   = 255
)

// New returns a sink for an integration's routing key. The template, if not nil, writes the
// summary.
func New(target *url.URL, routingKey string, template *render.Template, dialer *net.Dialer) *outbound.Hook {
	return outbound.NewHook(dialer, target.String(), func(m *sink.Message) ([]byte, error) {
		return render.Fit(len(m.Events), func(shown int) ([]byte, error) { return body(m, routingKey, template, shown) })
	})
}

type message struct {
	RoutingKey string   `json:"routing_key"`
	Action     string   `json:"event_action"`
	Dedup      string   `json:"dedup_key"`
	Payload    *payload `json:"payload,omitempty"`
	Client     string   `json:"client,omitempty"`
	ClientURL  string   `json:"client_url,omitempty"`
}

type payload struct {
	Summary   string `json:"summary"`
	Source    string `json:"source"`
	Severity  string `json:"severity"`
	Timestamp string `json:"timestamp"`
	Component string `json:"component,omitempty"`
	Group     string `json:"group,omitempty"`
	Class     string `json:"class,omitempty"`
	Details   any    `json:"custom_details,omitempty"`
}

// body returns the message with the details of the first shown loops.
func body(m *sink.Message, routingKey string, template *render.Template, shown int) ([]byte, error) {
	out := message{RoutingKey: routingKey, Action: "resolve", Dedup: dedup(m.Key)}
	if m.Resolved {
		return json.Marshal(out)
	}
	summary := render.Title(m)
	if template != nil {
		var err error
		if summary, err = template.Render(m); err != nil {
			return nil, err
		}
	}
	first := &m.Events[0]
	out.Action, out.Client, out.ClientURL = "trigger", "Unloop", render.Link(m, first)
	out.Payload = &payload{
		Summary: render.Cut(summary, maxSummary), Source: "unloop", Severity: severity(m), Timestamp: first.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z"),
		Component: render.Cut(first.Data.Policy, maxDedup), Group: render.Cut(first.TenantID, maxDedup), Class: render.Cut(first.Data.Detector, maxDedup),
		Details: details(m, shown),
	}
	return json.Marshal(out)
}

// dedup returns the key, or its hash if it exceeds PagerDuty's limit.
func dedup(key string) string {
	if len(key) <= maxDedup {
		return key
	}
	hash := sha256.Sum256([]byte(key))
	return hex.EncodeToString(hash[:])
}

// severity returns the greatest severity of the open loops.
func severity(m *sink.Message) string {
	best := event.Info
	for i := range m.Events {
		switch s := m.Events[i].Severity(); {
		case m.Events[i].Type == event.Resolved:
		case s == event.Critical, s == event.Warning && best == event.Info:
			best = s
		}
	}
	return string(best)
}

func details(m *sink.Message, shown int) any {
	var loops []map[string]string
	for i := range m.Events[:shown] {
		loop := map[string]string{"Found": render.Summary(&m.Events[i])}
		for _, f := range render.Fields(&m.Events[i]) {
			loop[f.Name] = f.Value
		}
		if link := render.Link(m, &m.Events[i]); link != "" {
			loop["Look"] = link
		}
		if release := render.Release(&m.Events[i]); release != "" {
			loop["Release"] = release
		}
		loops = append(loops, loop)
	}
	if len(m.Events) == 1 && shown == 1 {
		return loops[0]
	}
	return map[string]any{"loops": loops, "total": len(m.Events)}
}
