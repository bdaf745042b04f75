package identity

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
)

var hasher = NewHasher([KeySize]byte{1, 2, 3})

// identified is the identity of a request with headers, given as names and values in turn.
func identified(p *provider.Prompt, headers ...string) (*checkpb.Identity, string) {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return hasher.Identify(r, "sk-1", "fallback", p)
}

func TestTheSessionIsTheFirstThatARequestNames(t *testing.T) {
	t.Parallel()
	opening := fingerprint.Bytes([]byte("hello"))
	named := func(name string) string { return hasher.sum("session", hasher.Caller("sk-1", ""), name) }
	opened := hasher.sum("opening", hasher.Caller("sk-1", ""), string(opening[:]))
	for name, c := range map[string]struct {
		prompt  *provider.Prompt
		headers []string
		want    string
		name    string
	}{
		"nothing":             {nil, nil, "", ""},
		"a prompt of nothing": {&provider.Prompt{}, nil, "", ""},
		"the opening":         {&provider.Prompt{Opening: opening}, nil, opened, ""},
		"the body":            {&provider.Prompt{Session: "b", Opening: opening}, nil, named("b"), "b"},
		"a header":            {&provider.Prompt{Session: "b"}, []string{"X-Session-Id", "h"}, named("h"), "h"},
		"a header, no body":   {nil, []string{"X-Session-Id", "h"}, named("h"), "h"},
		"Claude Code's":       {nil, []string{"X-Claude-Code-Session-Id", "c"}, named("c"), "c"},
		"both headers":        {nil, []string{"X-Claude-Code-Session-Id", "c", "X-Session-Id", "h"}, named("h"), "h"},
		"an empty header":     {nil, []string{"X-Session-Id", "", "X-Claude-Code-Session-Id", "c"}, named("c"), "c"},
		"baggage":             {&provider.Prompt{Session: "b"}, []string{"Baggage", "user=x, session.id = s ;p=1"}, named("s"), "s"},
		"GenAI's baggage":     {nil, []string{"Baggage", "a=1", "Baggage", "gen_ai.conversation.id=s"}, named("s"), "s"},
		"other baggage":       {&provider.Prompt{Session: "b"}, []string{"Baggage", "session=x,;,session.id"}, named("b"), "b"},
	} {
		if id, own := identified(c.prompt, c.headers...); id.GetSession() != c.want || own != c.name {
			t.Errorf("%s: session %q, named %q", name, id.GetSession(), own)
		}
	}
}

func TestTenantAndProjectAreLabels(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*maxLabel)
	for name, c := range map[string]struct {
		headers         []string
		tenant, project string
	}{
		"none":         {nil, "", "fallback"},
		"both":         {[]string{"X-Tenant-Id", "acme", "X-Project-Id", "web"}, "acme", "web"},
		"not valid":    {[]string{"X-Tenant-Id", "ac\xffme"}, "acme", "fallback"},
		"an empty one": {[]string{"X-Project-Id", ""}, "", "fallback"},
	} {
		if id, _ := identified(nil, c.headers...); id.GetTenant() != c.tenant || id.GetProject() != c.project {
			t.Errorf("%s: tenant %q, project %q", name, id.GetTenant(), id.GetProject())
		}
	}
	first, _ := identified(nil, "X-Tenant-Id", long+"1")
	second, _ := identified(nil, "X-Tenant-Id", long+"2")
	if first.GetTenant() == second.GetTenant() || len(first.GetTenant()) != maxLabel {
		t.Errorf("tenants %q and %q", first.GetTenant(), second.GetTenant())
	}
}

// Callers differ by key and user, and by the gateways' own key; none shows what it is of.
func TestHashesDifferByAllTheirFields(t *testing.T) {
	t.Parallel()
	other := NewHasher([KeySize]byte{4})
	seen := map[string]string{}
	for name, hash := range map[string]string{
		"a key":                 hasher.Caller("sk-1", ""),
		"its user":              hasher.Caller("sk-1", "u"),
		"another user":          hasher.Caller("sk-1", "v"),
		"another key":           hasher.Caller("sk-2", ""),
		"fields that join":      hasher.Caller("sk-", "1u"),
		"a user without a key":  hasher.Caller("", "sk-1"),
		"another hasher":        other.Caller("sk-1", ""),
		"a pseudonym":           hasher.Pseudonym("sk-1"),
		"another pseudonym":     hasher.Pseudonym("u"),
		"the other's pseudonym": other.Pseudonym("u"),
	} {
		if same, known := seen[hash]; known || len(hash) != 32 || strings.Contains(hash, "sk-") {
			t.Errorf("%s: %q, as %q", name, hash, same)
		}
		seen[hash] = name
	}
	id, _ := identified(&provider.Prompt{User: "u"})
	if id.GetCaller() != hasher.Caller("sk-1", "u") {
		t.Error("the caller is not the prompt's user")
	}
	theirs, _ := NewHasher([KeySize]byte{1, 2, 3}).Identify(httptest.NewRequest(http.MethodGet, "/", nil), "sk-1", "", &provider.Prompt{User: "u"})
	if theirs.GetCaller() != id.GetCaller() {
		t.Error("two gateways with one key do not agree")
	}
}

func TestManyMayHashAtOnce(t *testing.T) {
	t.Parallel()
	want := hasher.Pseudonym("x")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				if hasher.Pseudonym("x") != want {
					t.Error("a hash differs")
				}
			}
		})
	}
	all.Wait()
}
