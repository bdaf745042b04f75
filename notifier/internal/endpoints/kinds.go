package endpoints

import (
	"cmp"
	"net"
	"time"

	"github.com/prometheus/common/model"

	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/notifier/internal/sink/alertmanager"
	"github.com/unloop/unloop/notifier/internal/sink/discord"
	"github.com/unloop/unloop/notifier/internal/sink/email"
	"github.com/unloop/unloop/notifier/internal/sink/pagerduty"
	"github.com/unloop/unloop/notifier/internal/sink/slack"
	"github.com/unloop/unloop/notifier/internal/sink/teams"
	"github.com/unloop/unloop/notifier/internal/sink/webhook"
)

// kind is a service that messages can be sent to.
type kind struct {
	name string
	// set reports whether an endpoint is of the kind.
	set func(*Endpoint) bool
	// throttle is the service's own rate limit.
	throttle routing.Throttle
	// refresh returns the interval at which open loops must be sent again; 0 for never.
	refresh func(*Endpoint) time.Duration
	// build makes the sink. It records faults with the reader; if there is one, the result is
	// not used.
	build func(*reader, *Endpoint, *net.Dialer) sink.Sink
}

// kinds lists all services. Slack accepts a message a second for each webhook, Discord 30 a
// minute, Teams workflows about 4 a second, and PagerDuty 120 a minute for each integration.
func kinds() []kind {
	never := func(*Endpoint) time.Duration { return 0 }
	return []kind{
		{"webhook", func(e *Endpoint) bool { return e.Webhook != nil }, routing.Throttle{}, never, buildWebhook},
		{"slack", func(e *Endpoint) bool { return e.Slack != nil }, routing.Throttle{Messages: 1, Per: time.Second}, never, buildSlack},
		{"discord", func(e *Endpoint) bool { return e.Discord != nil }, routing.Throttle{Messages: 5, Per: 10 * time.Second}, never, buildDiscord},
		{"teams", func(e *Endpoint) bool { return e.Teams != nil }, routing.Throttle{Messages: 2, Per: time.Second}, never, buildTeams},
		{"pagerduty", func(e *Endpoint) bool { return e.PagerDuty != nil }, routing.Throttle{Messages: 100, Per: time.Minute}, never, buildPagerDuty},
		{"alertmanager", func(e *Endpoint) bool { return e.Alertmanager != nil }, routing.Throttle{}, refresh, buildAlertmanager},
		{"email", func(e *Endpoint) bool { return e.Email != nil }, routing.Throttle{Messages: 30, Per: time.Minute}, never, buildEmail},
	}
}

func buildWebhook(r *reader, e *Endpoint, d *net.Dialer) sink.Sink {
	w := e.Webhook
	cfg := webhook.Config{ContentType: w.ContentType, Template: r.template("webhook.template", w.Template)}
	switch {
	case w.URL != "" && w.URLFrom != nil:
		r.fault("webhook.url_from", "url and url_from are both set; drop one of them")
	case w.URLFrom != nil:
		cfg.URL = r.url("webhook.url_from", r.secret("webhook.url_from", *w.URLFrom))
	case w.URL == "":
		r.fault("webhook", "url is required; write the endpoint's address, or url_from if it holds a secret")
	default:
		cfg.URL = r.url("webhook.url", w.URL)
	}
	for i, source := range w.Secrets {
		cfg.Keys = append(cfg.Keys, r.signingKey(index("webhook.secrets", i), source))
	}
	if r.faulty {
		return nil
	}
	built, err := webhook.New(cfg, d)
	if err != nil {
		r.fault("webhook", err.Error())
	}
	return built
}

func buildSlack(r *reader, e *Endpoint, d *net.Dialer) sink.Sink {
	url, template := r.chat("slack", e.Slack)
	return slack.New(url, template, d)
}

func buildDiscord(r *reader, e *Endpoint, d *net.Dialer) sink.Sink {
	url, template := r.chat("discord", e.Discord)
	return discord.New(url, template, d)
}

func buildTeams(r *reader, e *Endpoint, d *net.Dialer) sink.Sink {
	url, template := r.chat("teams", e.Teams)
	return teams.New(url, template, d)
}

func buildPagerDuty(r *reader, e *Endpoint, d *net.Dialer) sink.Sink {
	p := e.PagerDuty
	target := cmp.Or(p.URL, pagerduty.DefaultURL)
	u, key, template := r.url("pagerduty.url", target), r.secret("pagerduty.routing_key", p.RoutingKey), r.template("pagerduty.template", p.Template)
	if r.faulty {
		return nil
	}
	return pagerduty.New(u, key, template, d)
}

// defaultRefresh is the interval at which an Alertmanager is sent open loops.
const defaultRefresh = time.Minute

func refresh(e *Endpoint) time.Duration { return cmp.Or(e.Alertmanager.Refresh, defaultRefresh) }

func buildAlertmanager(r *reader, e *Endpoint, d *net.Dialer) sink.Sink {
	a := e.Alertmanager
	cfg := alertmanager.Config{
		URL: r.url("alertmanager.url", a.URL), User: a.Username, Refresh: refresh(e), Labels: a.Labels,
		Template: r.template("alertmanager.template", a.Template), Password: r.password("alertmanager", a.Username, a.Password),
	}
	r.atLeast("alertmanager.refresh", cfg.Refresh, time.Second)
	for name := range a.Labels {
		if !model.LegacyValidation.IsValidLabelName(name) {
			r.fault("alertmanager.labels."+name, "a label's name has letters, digits and _ alone, and begins with no digit")
		}
	}
	if r.faulty {
		return nil
	}
	return alertmanager.New(cfg, d)
}

func buildEmail(r *reader, e *Endpoint, d *net.Dialer) sink.Sink {
	m := e.Email
	cfg := email.Config{
		Security: email.Security(m.Security), From: m.From, To: m.To, User: m.Username,
		Password: r.password("email", m.Username, m.Password), Template: r.template("email.template", m.Template),
	}
	cfg.Host, cfg.Port = r.server("email.server", m.Server)
	r.address("email.from", m.From)
	for i, to := range m.To {
		r.address(index("email.to", i), to)
	}
	if cfg.Security == email.None && cfg.User != "" {
		r.fault("email.security", "a password is not sent in the clear; use starttls or tls, or drop username")
	}
	return email.New(cfg, d)
}
