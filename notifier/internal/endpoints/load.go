package endpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/policy"
)

// Built is an endpoint that is ready for use. Its owner closes the sink.
type Built struct {
	Name string
	// Kind names the service.
	Kind     string
	Sink     sink.Sink
	Routes   []routing.Route
	Throttle routing.Throttle
	// Signed reports whether receivers can verify the sender. It is false for webhooks without
	// a secret.
	Signed bool
}

// Close closes the sinks of endpoints.
func Close(all []Built) {
	for _, b := range all {
		if b.Sink != nil {
			b.Sink.Close()
		}
	}
}

// Load reads a file and makes its endpoints, which may point to the allowed networks and to
// those that the file allows. The error is a *policy.Faults with every fault.
func Load(data []byte, allowed []netip.Prefix, env Environment) ([]Built, error) {
	return load(data, allowed, env, nil)
}

// load is Load with a DNS resolver; nil for the system's.
func load(data []byte, allowed []netip.Prefix, env Environment, resolver *net.Resolver) ([]Built, error) {
	var f File
	doc, err := policy.Decode(data, "file", &f)
	if err != nil {
		return nil, err
	}
	f.check(doc)
	allowed = append(slices.Clone(allowed), f.AllowCIDR...)
	dialer := outbound.NewDialer(allowed)
	dialer.Resolver = resolver
	var all []Built
	for i := range f.Endpoints {
		r := &reader{doc: doc, path: index("endpoints", i), env: env, allowed: allowed}
		if b, ok := f.build(r, &f.Endpoints[i], dialer); ok {
			all = append(all, b)
		}
	}
	if err := doc.Err(); err != nil {
		Close(all)
		return nil, err
	}
	return all, nil
}

// build makes one endpoint. It returns false if it has a fault.
func (f *File) build(r *reader, e *Endpoint, dialer *net.Dialer) (Built, bool) {
	var of []kind
	names := []string{}
	for _, k := range kinds() {
		names = append(names, k.name)
		if k.set(e) {
			of = append(of, k)
		}
	}
	if len(of) == 0 && r.doc.Faulty(r.path) {
		return Built{}, false // the fault says that its service is misspelled
	}
	if len(of) != 1 {
		r.doc.Fault(r.path, fmt.Sprintf("an endpoint has exactly one of %s; it has %d", strings.Join(names, ", "), len(of)))
		return Built{}, false
	}
	k := of[0]
	b := Built{Name: e.Name, Kind: k.name, Throttle: k.throttle, Sink: k.build(r, e, dialer), Routes: f.routes(e.Name, k.refresh(e))}
	b.Signed = e.Webhook == nil || len(e.Webhook.Secrets) > 0
	if t := e.Throttle; t != nil {
		r.atLeast("throttle.per", t.Per, time.Second)
		b.Throttle = slower(b.Throttle, routing.Throttle{Messages: t.Messages, Per: t.Per})
	}
	return b, !r.faulty
}

// slower returns the throttle with the lower rate.
func slower(a, b routing.Throttle) routing.Throttle {
	if a.Messages > 0 && a.Per/time.Duration(a.Messages) > b.Per/time.Duration(max(b.Messages, 1)) {
		return a
	}
	return b
}

// namePattern restricts endpoints' names, which are parts of subjects and keys.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// check records faults that concern more than one field.
func (f *File) check(doc *policy.Document) {
	names := map[string]bool{}
	for i := range f.Endpoints {
		e := &f.Endpoints[i]
		path := index("endpoints", i) + ".name"
		if e.Name != "" && !namePattern.MatchString(e.Name) {
			doc.Fault(path, "a name has letters, digits, - and _ alone")
		}
		if names[e.Name] {
			doc.Fault(path, fmt.Sprintf("the name %q is used by an earlier endpoint", e.Name))
		}
		names[e.Name] = true
		routed := func(r Route) bool { return slices.Contains(r.Endpoints, e.Name) }
		if len(f.Routes) > 0 && !slices.ContainsFunc(f.Routes, routed) {
			doc.Fault(path, fmt.Sprintf("no route names the endpoint %q; add it to one, or drop it", e.Name))
		}
	}
	if len(f.Endpoints) == 0 && !doc.Faulty("endpoints") {
		doc.Fault("endpoints", "name at least one endpoint")
	}
	routes := map[string]bool{}
	for i := range f.Routes {
		f.Routes[i].check(doc, index("routes", i), names)
		if name := f.Routes[i].Name; name != "" {
			if routes[name] {
				doc.Fault(index("routes", i)+".name", fmt.Sprintf("the name %q is used by an earlier route", name))
			}
			routes[name] = true
		}
	}
}

func (r *Route) check(doc *policy.Document, path string, endpoints map[string]bool) {
	for i, name := range r.Endpoints {
		if !endpoints[name] {
			doc.Fault(index(path+".endpoints", i), fmt.Sprintf("no endpoint has the name %q", name))
		}
	}
	if len(r.Endpoints) == 0 {
		doc.Fault(path+".endpoints", "name at least one endpoint")
	}
	for field, patterns := range r.Match {
		if fault := match.Fault(field, patterns); fault != "" {
			doc.Fault(path+".match."+field, fault)
		}
	}
	check := func(field string, d *time.Duration, least time.Duration) {
		if d != nil && (*d < least || *d > maxInterval) {
			doc.Fault(path+"."+field, fmt.Sprintf("must be from %s to %s", least, maxInterval))
		}
	}
	check("group_wait", r.GroupWait, 0)
	check("group_interval", r.GroupInterval, 0)
	if r.RepeatInterval != 0 {
		check("repeat_interval", &r.RepeatInterval, time.Second)
	}
}

const (
	// maxInterval bounds the times of a route.
	maxInterval = 7 * 24 * time.Hour
	// groupWait and groupInterval are the defaults of routes that group.
	groupWait     = 30 * time.Second
	groupInterval = 5 * time.Minute
)

// routes returns the routes of an endpoint. refresh is the upper bound of their repeat
// intervals; 0 for none.
func (f *File) routes(endpoint string, refresh time.Duration) []routing.Route {
	if len(f.Routes) == 0 {
		return []routing.Route{{Name: "all", RepeatInterval: refresh}}
	}
	var all []routing.Route
	for i := range f.Routes {
		if r := &f.Routes[i]; slices.Contains(r.Endpoints, endpoint) {
			all = append(all, r.routing(refresh))
		}
	}
	return all
}

func (r *Route) routing(refresh time.Duration) routing.Route {
	out := routing.Route{Name: r.Name, GroupBy: r.GroupBy, RepeatInterval: r.RepeatInterval}
	if refresh > 0 && (out.RepeatInterval == 0 || refresh < out.RepeatInterval) {
		out.RepeatInterval = refresh
	}
	if len(r.GroupBy) > 0 {
		out.GroupWait, out.GroupInterval = groupWait, groupInterval
	}
	if r.GroupWait != nil {
		out.GroupWait = *r.GroupWait
	}
	if r.GroupInterval != nil {
		out.GroupInterval = *r.GroupInterval
	}
	for _, name := range r.Events {
		out.Events = append(out.Events, event.Type("loop."+name))
	}
	out.Match = match.Matchers{}
	for field, patterns := range r.Match {
		out.Match[field] = patterns
	}
	if out.Name == "" {
		out.Name = hashName(r)
	}
	return out
}

// hashName names a route by what it selects, so that it does not depend on the order in the
// file.
func hashName(r *Route) string {
	text, err := json.Marshal([]any{r.Match, r.GroupBy})
	if err != nil {
		return "route"
	}
	sum := sha256.Sum256(text)
	return "route-" + hex.EncodeToString(sum[:6])
}

// Faults returns every fault in an error of Load.
func Faults(err error) []policy.Fault {
	if faults, ok := errors.AsType[*policy.Faults](err); ok {
		return faults.List
	}
	return nil
}
