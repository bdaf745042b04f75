// Package webhook sends messages to an HTTP endpoint, signed as Standard Webhooks
// (https://www.standardwebhooks.com) if secrets are configured.
//
// The body is written by a template, or else is the event's JSON, or a Group if the message is
// about several loops. The package does not know when a message is sent again.
package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
)

// Config describes an endpoint.
type Config struct {
	// URL is the address, http or https. User and password in it become basic
	// authentication.
	URL *url.URL
	// Keys sign requests, each with a signature of its own. Receivers accept any of them.
	// Without keys there is no signature.
	Keys [][]byte
	// Template writes the body; nil for the JSON of events.
	Template *render.Template
	// ContentType is the type of the template's body; "" for JSON.
	ContentType string
}

// Webhook is one endpoint.
type Webhook struct {
	*outbound.Client
	url         string
	signers     []*standardwebhooks.Webhook
	template    *render.Template
	contentType string
}

// New returns a webhook.
func New(cfg Config, dialer *net.Dialer) (*Webhook, error) {
	w := &Webhook{url: cfg.URL.String(), template: cfg.Template, contentType: cfg.ContentType, Client: outbound.NewClient(dialer)}
	for _, key := range cfg.Keys {
		signer, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return nil, fmt.Errorf("use webhook secret: %w", err)
		}
		w.signers = append(w.signers, signer)
	}
	return w, nil
}

// Send posts the message.
func (w *Webhook) Send(ctx context.Context, m *sink.Message) error {
	if !isVisible(m.ID) {
		return sink.Rejectf("the message's id has characters that are not allowed in a header")
	}
	body, err := w.body(m)
	if err != nil {
		return sink.Rejectf("the message cannot be written: %s", err)
	}
	header, err := w.header(m, body)
	if err != nil {
		return sink.Rejectf("the message cannot be signed")
	}
	_, err = w.Post(ctx, w.url, header, body)
	return err
}

func (w *Webhook) header(m *sink.Message, body []byte) (http.Header, error) {
	header := http.Header{}
	if w.template != nil && w.contentType != "" {
		header.Set("Content-Type", w.contentType)
	}
	header.Set(standardwebhooks.HeaderWebhookID, m.ID)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(m.Time.Unix(), 10))
	var signatures []string
	for _, signer := range w.signers {
		signature, err := signer.Sign(m.ID, m.Time, body)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, signature)
	}
	if signatures != nil {
		header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	}
	return header, nil
}

func (w *Webhook) body(m *sink.Message) ([]byte, error) {
	if w.template != nil {
		text, err := w.template.Render(m)
		return []byte(text), err
	}
	if len(m.Events) == 1 {
		return bounded(m.Events[0])
	}
	return group(m)
}

// bounded returns the JSON of an event, without as many of the last findings as do not fit.
func bounded(e event.Event) ([]byte, error) {
	for {
		body, err := json.Marshal(e)
		if err != nil || len(body) <= sink.MaxBody {
			return body, err
		}
		if len(e.Data.Findings) == 0 {
			return nil, fmt.Errorf("the event has more than %d bytes", sink.MaxBody)
		}
		e.Data.Findings = e.Data.Findings[:len(e.Data.Findings)-1]
	}
}

// Group is the body of a message about several loops.
type Group struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Timestamp time.Time `json:"timestamp"`
	Key       string    `json:"group_key"`
	Resolved  bool      `json:"resolved"`
	// Total is the number of loops; Events are those of the first of them, as many as fit.
	Total  int               `json:"total"`
	Events []json.RawMessage `json:"events"`
}

// TypeGroup is the type of a Group.
const TypeGroup = "loop.group"

func group(m *sink.Message) ([]byte, error) {
	g := Group{Type: TypeGroup, ID: m.ID, Timestamp: m.Time.UTC(), Key: m.Key, Resolved: m.Resolved, Total: len(m.Events), Events: []json.RawMessage{}}
	empty, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	room := sink.MaxBody - len(empty)
	for i := range m.Events {
		body, err := bounded(m.Events[i])
		if room -= len(body) + 1; err != nil || room < 0 {
			break
		}
		g.Events = append(g.Events, body)
	}
	return json.Marshal(g)
}

// isVisible reports whether s has only visible ASCII characters.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
