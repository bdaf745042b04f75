package bundle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/policy"
)

func ids(policies []*bundle.Policy) []string {
	found := []string{}
	for _, p := range policies {
		found = append(found, p.ID)
	}
	return found
}

// selecting is a set with one policy for each selector, named by its place.
func selecting(t testing.TB, selectors ...string) *bundle.Set {
	t.Helper()
	var b strings.Builder
	b.WriteString("bundle_version: 1\npolicies:\n")
	for i, s := range selectors {
		fmt.Fprintf(&b, "- {id: '%d', spec: {selector: %s}}\n", i, s)
	}
	return mustCompile(t, b.String())
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	header := func(name string) string {
		if name == "x-agent" {
			return "coder-7"
		}
		return ""
	}
	tests := []struct {
		selector string
		request  bundle.Request
		want     bool
	}{
		{"{}", bundle.Request{}, true},
		{"{pathPrefix: /v1/}", bundle.Request{Path: "/v1/x"}, true},
		{"{pathPrefix: /v1/}", bundle.Request{Path: "/v1/"}, true},
		{"{pathPrefix: /v1/}", bundle.Request{Path: "/v1beta"}, false},
		{"{pathPrefix: /v1/}", bundle.Request{Path: "/v1"}, false},
		{"{pathPrefix: /v1}", bundle.Request{Path: "/v1"}, true},
		{"{pathPrefix: /v1}", bundle.Request{Path: "/v1/x/y"}, true},
		{"{pathPrefix: /v1}", bundle.Request{Path: "/v1beta/x"}, false},
		{"{pathPrefix: /}", bundle.Request{Path: "/anything"}, true},
		{"{pathPrefix: /v1/chat/}", bundle.Request{Path: "/v1/chat/completions"}, true},
		{"{pathPrefix: /v1/chat/}", bundle.Request{Path: "/v1/chats"}, false},
		{"{pathExact: /v1/x}", bundle.Request{Path: "/v1/x"}, true},
		{"{pathExact: /v1/x}", bundle.Request{Path: "/v1/x/"}, false},
		{"{pathExact: /a, pathPrefix: /b/}", bundle.Request{Path: "/a"}, true},
		{"{pathExact: /a, pathPrefix: /b/}", bundle.Request{Path: "/b/c"}, true},
		{"{pathExact: /a, pathPrefix: /b/}", bundle.Request{Path: "/c"}, false},
		{"{methods: [post]}", bundle.Request{Method: "POST"}, true},
		{"{methods: [POST, PUT]}", bundle.Request{Method: "GET"}, false},
		{"{hosts: [API.example]}", bundle.Request{Host: "api.EXAMPLE:8080"}, true},
		{"{hosts: [api.example]}", bundle.Request{Host: "api.example."}, true},
		{"{hosts: [api.example]}", bundle.Request{Host: "x.api.example"}, false},
		{"{hosts: ['::1']}", bundle.Request{Host: "[::1]:80"}, true},
		{"{headers: {x-agent: coder-7}}", bundle.Request{Header: header}, true},
		{"{headers: {x-agent: 'coder-*'}}", bundle.Request{Header: header}, true},
		{"{headers: {x-agent: '*'}}", bundle.Request{Header: header}, true},
		{"{headers: {x-agent: coder}}", bundle.Request{Header: header}, false},
		{"{headers: {x-agent: coder-7, x-other: '*'}}", bundle.Request{Header: header}, false},
		{"{headers: {x-agent: '*'}}", bundle.Request{}, false},
		{"{models: ['gpt-*']}", bundle.Request{Model: "gpt-5"}, true},
		{"{models: ['gpt-*', '*-mini']}", bundle.Request{Model: "o4-mini"}, true},
		{"{models: ['gpt-?']}", bundle.Request{Model: "gpt-50"}, false},
		{"{models: ['gpt-*']}", bundle.Request{}, false},
		{"{upstream: openai}", bundle.Request{Upstream: "openai"}, true},
		{"{upstream: openai}", bundle.Request{Upstream: "default"}, false},
		{"{tenant: [acme, globex]}", bundle.Request{Tenant: "globex"}, true},
		{"{tenant: [acme, globex]}", bundle.Request{}, false},
		{"{project: a, caller: b}", bundle.Request{Project: "a", Caller: "b"}, true},
		{"{project: a, caller: b}", bundle.Request{Project: "a"}, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %s%s%s", tt.selector, tt.request.Host, tt.request.Path, tt.request.Model), func(t *testing.T) {
			t.Parallel()
			if got := len(selecting(t, tt.selector).Match(&tt.request)) == 1; got != tt.want {
				t.Errorf("matched: %v", got)
			}
		})
	}
}

func TestPolicyMatchedTwiceIsFoundOnce(t *testing.T) {
	t.Parallel()
	s := selecting(t, "{pathExact: /v1/x, pathPrefix: [/v1/, /]}", "{models: [gpt-5, 'gpt-*']}")
	if got := ids(s.Match(&bundle.Request{Path: "/v1/x", Model: "gpt-5"})); !slices.Equal(got, []string{"0", "1"}) {
		t.Errorf("found %v", got)
	}
}

func TestOtherPathsOfARequestAreMatched(t *testing.T) {
	t.Parallel()
	s := selecting(t, "{pathPrefix: /v1/}", "{pathExact: /a}", "{pathExact: /b}")
	if got := ids(s.Match(&bundle.Request{Path: "/x", Also: []string{"/v1/x", "/b"}})); !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf("found %v", got)
	}
}

func TestMatchesComeInTheBundlesOrder(t *testing.T) {
	t.Parallel()
	s := selecting(t, "{tenant: a}", "{}", "{pathPrefix: /v1/}", "{models: g*}", "{hosts: h}", "{caller: c}", "{headers: {x: y}}", "{pathExact: /v1/z}")
	r := &bundle.Request{Path: "/v1/z", Tenant: "a", Model: "g", Host: "h", Caller: "c", Header: func(string) string { return "y" }}
	if got := strings.Join(ids(s.Match(r)), ""); got != "01234567" {
		t.Errorf("found %s", got)
	}
}

// selectorGen draws selectors from few values, so that they often match.
func selectorGen() *rapid.Generator[policy.Selector] {
	list := func(values ...string) *rapid.Generator[policy.Strings] {
		return rapid.Custom(func(t *rapid.T) policy.Strings {
			if rapid.IntRange(0, 2).Draw(t, "given") > 0 {
				return nil
			}
			return rapid.SliceOfN(rapid.SampledFrom(values), 1, 3).Draw(t, "values")
		})
	}
	return rapid.Custom(func(t *rapid.T) policy.Selector {
		s := policy.Selector{
			PathPrefix: list("/", "/v1", "/v1/", "/v1/chat/", "/v1beta").Draw(t, "pathPrefix"),
			PathExact:  list("/v1", "/v1/chat/completions", "/").Draw(t, "pathExact"),
			Methods:    list("POST", "GET").Draw(t, "methods"),
			Hosts:      list("a.example", "B.example").Draw(t, "hosts"),
			Models:     list("gpt-*", "gpt-5", "g?t-5", "*", "claude").Draw(t, "models"),
			Upstream:   list("openai", "default").Draw(t, "upstream"),
			Tenant:     list("a", "b").Draw(t, "tenant"),
			Project:    list("a", "b").Draw(t, "project"),
			Caller:     list("a", "b").Draw(t, "caller"),
		}
		if rapid.IntRange(0, 4).Draw(t, "headers") == 0 {
			s.Headers = map[string]string{"x-a": rapid.SampledFrom([]string{"1", "1*", "*"}).Draw(t, "header")}
		}
		return s
	})
}

func requestGen() *rapid.Generator[bundle.Request] {
	return rapid.Custom(func(t *rapid.T) bundle.Request {
		header := rapid.SampledFrom([]string{"", "1", "12"}).Draw(t, "header")
		return bundle.Request{
			Method:   rapid.SampledFrom([]string{"POST", "GET"}).Draw(t, "method"),
			Path:     rapid.SampledFrom([]string{"/", "/v1", "/v1/", "/v1/chat/completions", "/v1beta/x", ""}).Draw(t, "path"),
			Host:     rapid.SampledFrom([]string{"", "a.example", "b.example:8080"}).Draw(t, "host"),
			Model:    rapid.SampledFrom([]string{"", "gpt-5", "gpt-", "claude"}).Draw(t, "model"),
			Upstream: rapid.SampledFrom([]string{"openai", "default"}).Draw(t, "upstream"),
			Tenant:   rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tenant"),
			Project:  rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "project"),
			Caller:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "caller"),
			Header: func(name string) string {
				if name == "x-a" {
					return header
				}
				return ""
			},
		}
	})
}

func TestMatchFindsWhatReadingEverySelectorWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &policy.Bundle{BundleVersion: 1}
		for i, s := range rapid.SliceOfN(selectorGen(), 1, 12).Draw(t, "selectors") {
			spec := policy.DefaultSpec()
			spec.Selector = s
			b.Policies = append(b.Policies, policy.Entry{ID: fmt.Sprint(i), Spec: spec})
		}
		r := requestGen().Draw(t, "request")
		want := []string{}
		for _, e := range b.Policies {
			if selects(&e.Spec.Selector, &r) {
				want = append(want, e.ID)
			}
		}
		set, err := bundle.Compile(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(set.Match(&r)); !slices.Equal(got, want) {
			t.Fatalf("found %v, want %v", got, want)
		}
	})
}

// selects says what a selector means, as plainly as possible.
func selects(s *policy.Selector, r *bundle.Request) bool {
	listed := func(list policy.Strings, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	host, _, _ := strings.Cut(strings.ToLower(r.Host), ":")
	hosts := policy.Strings{}
	for _, h := range s.Hosts {
		hosts = append(hosts, strings.ToLower(h))
	}
	path := len(s.PathExact)+len(s.PathPrefix) == 0 || slices.Contains(s.PathExact, r.Path)
	for _, prefix := range s.PathPrefix {
		path = path || r.Path == prefix || strings.HasPrefix(r.Path, strings.TrimSuffix(prefix, "/")+"/")
	}
	model := len(s.Models) == 0
	for _, glob := range s.Models {
		model = model || simpleGlob(glob, r.Model)
	}
	headers := true
	for name, glob := range s.Headers {
		value := r.Header(name)
		headers = headers && value != "" && simpleGlob(glob, value)
	}
	return path && model && headers && listed(s.Methods, r.Method) && listed(hosts, host) && listed(s.Upstream, r.Upstream) &&
		listed(s.Tenant, r.Tenant) && listed(s.Project, r.Project) && listed(s.Caller, r.Caller)
}

func simpleGlob(pattern, s string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '*':
		return simpleGlob(pattern[1:], s) || s != "" && simpleGlob(pattern, s[1:])
	default:
		return s != "" && (pattern[0] == '?' || pattern[0] == s[0]) && simpleGlob(pattern[1:], s[1:])
	}
}

func TestMatchAllocatesOnceAtMost(t *testing.T) {
	s := selecting(t, "{pathPrefix: /v1/}", "{methods: POST}", "{tenant: other}")
	r := &bundle.Request{Method: "POST", Path: "/v1/chat/completions", Host: "localhost:8080", Model: "gpt-5"}
	if n := testing.AllocsPerRun(100, func() { s.Match(r) }); n > 1 {
		t.Errorf("%v allocations with matches", n)
	}
	none := &bundle.Request{Method: "GET", Path: "/v2"}
	if n := testing.AllocsPerRun(100, func() { s.Match(none) }); n > 0 {
		t.Errorf("%v allocations without", n)
	}
}

func TestShadow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, text string
		at         time.Time
		want       bool
	}{
		{"enforced", onePolicy("{}"), now, false},
		{"its own mode", onePolicy("{mode: shadow}"), now, true},
		{"the whole bundle", "global_shadow: true\n" + onePolicy("{}"), now, true},
		{"the whole bundle, until then", "global_shadow: {enabled: true, expires_at: 2026-01-01T12:00:01Z}\n" + onePolicy("{}"), now, true},
		{"the whole bundle, no longer", "global_shadow: {enabled: true, expires_at: 2026-01-01T12:00:00Z}\n" + onePolicy("{}"), now, false},
		{"switched off", "global_shadow: {enabled: false}\n" + onePolicy("{}"), now, false},
	}
	for _, tt := range tests {
		if got := mustCompile(t, tt.text).Policies()[0].Shadow(tt.at); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestHoldoutIsAFixedShareOfSessions(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, onePolicy("{holdout: 0.1}")).Policies()[0]
	again := mustCompile(t, onePolicy("{holdout: 0.1, mode: shadow}")).Policies()[0]
	held := 0
	for i := range 10000 {
		session := fmt.Sprintf("session-%d", i)
		if p.HeldOut(session) != again.HeldOut(session) {
			t.Fatalf("two gateways differ about %s", session)
		}
		if p.HeldOut(session) {
			held++
		}
	}
	if held < 850 || held > 1150 {
		t.Errorf("%d of 10 000 sessions at a share of 0.1", held)
	}
	all, none := mustCompile(t, onePolicy("{holdout: 1}")).Policies()[0], mustCompile(t, onePolicy("{}")).Policies()[0]
	if !all.HeldOut("x") || none.HeldOut("x") {
		t.Error("shares of 1 and 0")
	}
}

func BenchmarkMatch(b *testing.B) {
	shapes := map[string]func(i int) string{
		"tenants": func(i int) string { return fmt.Sprintf("{pathPrefix: /v1/, methods: POST, tenant: tenant-%d}", i) },
		"paths":   func(i int) string { return fmt.Sprintf("{pathPrefix: /service-%d/, methods: POST}", i) },
		"models":  func(i int) string { return fmt.Sprintf("{pathPrefix: /v1/, models: 'model-%d-*'}", i) },
		"headers": func(i int) string { return fmt.Sprintf("{pathPrefix: /v1/, headers: {x-team: team-%d}}", i) },
	}
	for _, shape := range []string{"tenants", "paths", "models", "headers"} {
		for _, n := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", shape, n), func(b *testing.B) {
				selectors := []string{"{pathPrefix: /v1/, methods: POST}"}
				for i := range n {
					selectors = append(selectors, shapes[shape](i))
				}
				s := selecting(b, selectors...)
				r := &bundle.Request{
					Method: "POST", Path: "/v1/chat/completions", Host: "localhost:8080", Model: "gpt-5", Tenant: "acme", Caller: "c",
					Header: func(string) string { return "red" },
				}
				if len(s.Match(r)) != 1 {
					b.Fatal("not one match")
				}
				b.ReportAllocs()
				for b.Loop() {
					s.Match(r)
				}
			})
		}
	}
}
