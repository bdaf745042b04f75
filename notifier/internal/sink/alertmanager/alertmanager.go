// Package alertmanager sends loops as alerts to a Prometheus Alertmanager
// (POST /api/v2/alerts). An open loop is an alert that ends in a few refresh intervals unless
// it is sent again; a resolved one is an alert that has ended.
//
// Labels identify an alert, so they have only what does not change while a loop is open. The
// severity changes only with the loop's action.
package alertmanager

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
)

// missed is the number of missed refreshes after which an alert ends.
const missed = 4

// Config describes an Alertmanager.
type Config struct {
	// URL is the address, to which /api/v2/alerts is added if it is missing.
	URL *url.URL
	// User and Password, if set, are sent as basic authentication.
	User, Password string
	// Refresh is the interval at which open loops are sent again.
	Refresh time.Duration
	// Labels are added to each alert.
	Labels map[string]string
	// Template writes the annotation "description"; nil for a list of fields.
	Template *render.Template
}

// Alertmanager is one server.
type Alertmanager struct {
	*outbound.Client
	cfg Config
	url string
}

// New returns a sink for the server.
func New(cfg Config, dialer *net.Dialer) *Alertmanager {
	target := cfg.URL
	if !strings.HasSuffix(strings.TrimRight(target.Path, "/"), "/api/v2/alerts") {
		target = target.JoinPath("api", "v2", "alerts")
	}
	if cfg.User != "" {
		c := *target
		c.User = url.UserPassword(cfg.User, cfg.Password)
		target = &c
	}
	return &Alertmanager{outbound.NewClient(dialer), cfg, target.String()}
}

// Send posts the loops of the message.
func (a *Alertmanager) Send(ctx context.Context, m *sink.Message) error {
	alerts, err := a.alerts(m)
	if err != nil {
		return sink.Rejectf("the message cannot be written: %s", err)
	}
	for len(alerts) > 0 {
		var body []byte
		if body, alerts, err = next(alerts); err != nil {
			return sink.Rejectf("the message cannot be written: %s", err)
		}
		if _, err := a.Post(ctx, a.url, http.Header{}, body); err != nil {
			return err
		}
	}
	return nil
}

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// next returns a body with as many of the alerts as fit, and the rest. If the message is sent
// again, all of them are, which changes nothing.
func next(alerts []alert) (body []byte, rest []alert, err error) {
	n := len(alerts)
	for {
		body, err = json.Marshal(alerts[:n])
		if err != nil || len(body) <= sink.MaxBody || n == 1 {
			return body, alerts[n:], err
		}
		n = max(1, min(n-1, n*sink.MaxBody/len(body)))
	}
}

func (a *Alertmanager) alerts(m *sink.Message) ([]alert, error) {
	alerts := make([]alert, 0, len(m.Events))
	for i := range m.Events {
		one, err := a.alert(m, &m.Events[i])
		if err != nil {
			return nil, err
		}
		alerts = append(alerts, one)
	}
	return alerts, nil
}

func (a *Alertmanager) alert(m *sink.Message, e *event.Event) (alert, error) {
	one := alert{Labels: a.labels(e), Annotations: annotations(m, e), StartsAt: e.Data.FirstSeen, EndsAt: m.Time.Add(missed * a.cfg.Refresh)}
	if one.StartsAt.IsZero() {
		one.StartsAt = e.Timestamp
	}
	if e.Type == event.Resolved {
		one.EndsAt = slices.MaxFunc([]time.Time{e.Timestamp, one.StartsAt.Add(time.Millisecond)}, time.Time.Compare)
	}
	if a.cfg.Template == nil {
		return one, nil
	}
	single := *m
	single.Events = []event.Event{*e}
	description, err := a.cfg.Template.Render(&single)
	one.Annotations["description"] = render.Cut(description, sink.MaxBody/4)
	return one, err
}

func (a *Alertmanager) labels(e *event.Event) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, a.cfg.Labels)
	labels["alertname"] = "UnloopLoop"
	for name, value := range map[string]string{
		"loop_id": e.Data.LoopID, "policy": e.Data.Policy, "tenant": e.TenantID, "project": e.ProjectID,
		"mode": e.Data.Mode, "severity": string(e.Severity()),
	} {
		if value != "" {
			labels[name] = render.Cut(value, 200)
		}
	}
	return labels
}

func annotations(m *sink.Message, e *event.Event) map[string]string {
	all := map[string]string{"summary": render.Title(&sink.Message{Events: []event.Event{*e}}), "description": render.Summary(e)}
	for name, value := range map[string]string{
		"detector": e.Data.Detector, "action": e.Data.Action, "tool": render.Tools(e), "model": e.Data.Model,
		"hit_count": strconv.Itoa(e.Data.HitCount), "saved": render.Saved(e.Data.Saved), "release": render.Release(e), "dashboard": render.Link(m, e),
	} {
		if value != "" {
			all[name] = render.Cut(value, 200)
		}
	}
	return all
}
