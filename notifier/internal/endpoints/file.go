package endpoints

import (
	"net/netip"
	"time"

	"github.com/unloop/unloop/schemas/policy"
)

// File is the content of a --notify file, in YAML or JSON.
type File struct {
	AllowCIDR []netip.Prefix `json:"allow_cidr,omitempty" doc:"Private networks that endpoints may point to."`
	Endpoints []Endpoint     `json:"endpoints" check:"required" doc:"Where messages go."`
	Routes    []Route        `json:"routes,omitempty" doc:"Which events an endpoint gets, and how they become messages. For each endpoint, the first matching route that names it applies. Without routes, every endpoint gets every event."`
}

// Endpoint is one place that messages go to. Exactly one of its services is set.
type Endpoint struct {
	Name     string    `json:"name" check:"required,len=64,token" doc:"Unique name, in metrics, logs and commands."`
	Throttle *Throttle `json:"throttle,omitempty" doc:"Message rate limit, if it should be lower than the service's own."`

	Webhook      *Webhook      `json:"webhook,omitempty" doc:"HTTP endpoint, signed as Standard Webhooks."`
	Slack        *Chat         `json:"slack,omitempty" doc:"Slack incoming webhook."`
	Discord      *Chat         `json:"discord,omitempty" doc:"Discord webhook."`
	Teams        *Chat         `json:"teams,omitempty" doc:"Microsoft Teams workflow."`
	PagerDuty    *PagerDuty    `json:"pagerduty,omitempty" doc:"PagerDuty Events API v2."`
	Alertmanager *Alertmanager `json:"alertmanager,omitempty" doc:"Prometheus Alertmanager."`
	Email        *Email        `json:"email,omitempty" doc:"Mailbox, by SMTP."`
}

// Throttle bounds messages.
type Throttle struct {
	Messages int           `json:"messages" check:"required,min=1,max=100000" doc:"Messages in that time; further ones wait."`
	Per      time.Duration `json:"per" check:"required" doc:"Time, such as 1m."`
}

// Source is where a secret comes from: an environment variable or a file.
type Source struct {
	Env  string `json:"env,omitempty" check:"len=256" doc:"Name of an environment variable."`
	File string `json:"file,omitempty" check:"len=4096" doc:"Path of a file, reloaded when it changes."`
}

// Webhook is an HTTP endpoint.
type Webhook struct {
	URL         string   `json:"url,omitempty" check:"len=4096" doc:"Address, http or https."`
	URLFrom     *Source  `json:"url_from,omitempty" doc:"Source of the address, if it contains a secret."`
	Secrets     []Source `json:"secrets,omitempty" doc:"Sources of signing secrets (whsec_…). Every secret signs, so that receivers can rotate them."`
	Template    string   `json:"template,omitempty" doc:"Go template of the body; without one, the JSON of the event."`
	ContentType string   `json:"content_type,omitempty" check:"len=100" doc:"Content type of the template's body; application/json by default."`
}

// Chat is a webhook of a chat service.
type Chat struct {
	URL      Source `json:"url" check:"required" doc:"Source of the webhook's address, which is secret."`
	Template string `json:"template,omitempty" doc:"Go template of the text."`
}

// PagerDuty is an integration.
type PagerDuty struct {
	RoutingKey Source `json:"routing_key" check:"required" doc:"Source of the integration key."`
	URL        string `json:"url,omitempty" check:"len=4096" doc:"Address outside the United States, such as https://events.eu.pagerduty.com/v2/enqueue."`
	Template   string `json:"template,omitempty" doc:"Go template of the summary."`
}

// Alertmanager is a server.
type Alertmanager struct {
	URL      string            `json:"url" check:"required,len=4096" doc:"Address, such as http://alertmanager:9093."`
	Username string            `json:"username,omitempty" check:"len=256" doc:"User of basic authentication."`
	Password *Source           `json:"password,omitempty" doc:"Source of the user's password."`
	Labels   map[string]string `json:"labels,omitempty" doc:"Labels that every alert gets."`
	Refresh  time.Duration     `json:"refresh,omitempty" doc:"Interval at which open loops are sent again; 1m by default. An alert ends four intervals after the last one."`
	Template string            `json:"template,omitempty" doc:"Go template of the annotation description."`
}

// Email is a mailbox.
type Email struct {
	Server   string   `json:"server" check:"required,len=256" doc:"HOST:PORT of the SMTP server; 587 if there is no port."`
	Security string   `json:"security,omitempty" check:"one=starttls|tls|none" doc:"starttls (the default; the server must support it), tls (port 465) or none."`
	From     string   `json:"from" check:"required,len=320" doc:"Sender, such as Unloop <unloop@example.com>."`
	To       []string `json:"to" check:"required,len=320" doc:"Receivers."`
	Username string   `json:"username,omitempty" check:"len=256" doc:"User to authenticate as."`
	Password *Source  `json:"password,omitempty" doc:"Source of the user's password."`
	Template string   `json:"template,omitempty" doc:"Go template of the text."`
}

// Route selects events and says how they become messages.
type Route struct {
	Name           string                    `json:"name,omitempty" check:"len=64" doc:"Unique name. Groups keep their state under it when the file changes."`
	Endpoints      []string                  `json:"endpoints" check:"required" doc:"Names of endpoints."`
	Match          map[string]policy.Strings `json:"match,omitempty" doc:"Patterns by field: tenant, project, policy, detector, severity, action, mode, model, session, loop. * stands for any text and ? for one character; ! before a pattern excludes what matches it."`
	Events         []string                  `json:"events,omitempty" check:"one=detected|ongoing|resolved" doc:"Events that cause a message; detected and resolved by default."`
	GroupBy        []string                  `json:"group_by,omitempty" check:"one=tenant|project|policy|detector|severity|action|mode|model|session|loop" doc:"Fields by which loops are grouped into one message. Without any, each loop has its own messages."`
	GroupWait      *time.Duration            `json:"group_wait,omitempty" doc:"Time from a group's first event to its first message; 30s by default with group_by, else none."`
	GroupInterval  *time.Duration            `json:"group_interval,omitempty" doc:"Shortest time between two messages of a group; 5m by default with group_by, else none."`
	RepeatInterval time.Duration             `json:"repeat_interval,omitempty" doc:"Time after which the message about open loops is sent again; never by default."`
}
