package descriptor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// values reads the descriptors of a request with a reader.
func values(t *testing.T, r *Reader, edit func(*http.Request)) *Values {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/v1/x?org=a&org=b&empty=", nil)
	req.RemoteAddr = "10.0.0.9:4711"
	if edit != nil {
		edit(req)
	}
	return r.Values(Subject{HTTP: req, Model: "gpt", Identity: &checkpb.Identity{Caller: "c0ffee", Tenant: "acme"}})
}

func descriptor(t *testing.T, s string) policy.Descriptor {
	t.Helper()
	d, err := policy.ParseDescriptor(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPlainDescriptors(t *testing.T) {
	t.Parallel()
	v := values(t, New(nil, nil, nil, nil), func(r *http.Request) {
		r.Header.Add("X-Tool-Name", "bash")
		r.Header.Add("X-Twice", "one")
		r.Header.Add("X-Twice", "two")
	})
	for name, want := range map[string]string{
		"header:x-tool-name": "bash", "header:X-Twice": "one,two", "header:absent": missing,
		"query:org": "a,b", "query:empty": "", "query:absent": missing,
		"caller": "c0ffee", "tenant": "acme", "session": missing, "project": missing, "model": "gpt",
		"ip:address": "10.0.0.9", "ip:country": missing, "ua:bot": missing, "jwt:org": missing,
	} {
		if got := text(v.Get(descriptor(t, name))); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

const missing = "(missing)"

func text(v Value, ok bool) string {
	if !ok {
		return missing
	}
	return v.Text
}

func TestAddressIsTheNewestHopThatNoTrustedProxyVouchesFor(t *testing.T) {
	t.Parallel()
	r := New(nil, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, nil, nil)
	for name, c := range map[string]struct {
		remote, want string
		forwarded    []string
	}{
		"direct":                          {"192.0.2.1:99", "192.0.2.1", nil},
		"forged by an untrusted peer":     {"192.0.2.1:99", "192.0.2.1", []string{"198.51.100.7"}},
		"behind one proxy":                {"10.0.0.1:99", "198.51.100.7", []string{"198.51.100.7"}},
		"forged before one proxy":         {"10.0.0.1:99", "198.51.100.7", []string{"203.0.113.5, 198.51.100.7"}},
		"behind two proxies":              {"10.0.0.1:99", "198.51.100.7", []string{"198.51.100.7, 10.0.0.2"}},
		"two header lines":                {"10.0.0.1:99", "198.51.100.7", []string{"203.0.113.5", "198.51.100.7,10.0.0.2"}},
		"only proxies":                    {"10.0.0.1:99", "10.0.0.3", []string{"10.0.0.3, 10.0.0.2"}},
		"garbage next to the proxy":       {"10.0.0.1:99", "10.0.0.1", []string{"198.51.100.7, unknown"}},
		"port and brackets":               {"[fd00::1]:99", "2001:db8::7", []string{"[2001:db8::7]:443"}},
		"an IPv4 address in IPv6 clothes": {"[::ffff:10.0.0.1]:99", "198.51.100.7", []string{"::ffff:198.51.100.7"}},
		"a peer without an address":       {"@", missing, nil},
	} {
		v := values(t, r, func(req *http.Request) { req.RemoteAddr = c.remote; req.Header["X-Forwarded-For"] = c.forwarded })
		if got := text(v.Get(descriptor(t, "ip:address"))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestClassesOfAddressesAreWhatTrustedProxiesSay(t *testing.T) {
	t.Parallel()
	r := New(nil, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, nil, nil)
	told := http.Header{"X-Country-Code": {"DE"}, "X-Asn": {"64500", "64501"}, "X-Asn-Type": {" hosting "}, "X-Tor-Exit": {"yes"}}
	for peer, want := range map[string]map[string]string{
		"10.0.0.1:99":  {"ip:country": "DE", "ip:asn": "64501", "ip:type": "hosting", "ip:tor": "true"},
		"192.0.2.1:99": {"ip:country": missing, "ip:asn": missing, "ip:type": missing, "ip:tor": missing},
		"@":            {"ip:country": missing},
	} {
		v := values(t, r, func(req *http.Request) { req.RemoteAddr = peer; req.Header = told })
		for name, value := range want {
			if got := text(v.Get(descriptor(t, name))); got != value {
				t.Errorf("peer %s: %s is %q, want %q", peer, name, got, value)
			}
		}
	}
	for wrote, want := range map[string]string{"0": "false", "FALSE": "false", "1": "true", "perhaps": missing, "": missing} {
		v := values(t, r, func(req *http.Request) { req.RemoteAddr = "10.0.0.1:99"; req.Header.Set("X-Tor-Exit", wrote) })
		if got := text(v.Get(descriptor(t, "ip:tor"))); got != want {
			t.Errorf("X-Tor-Exit %q is %q, want %q", wrote, got, want)
		}
	}
}

func TestBotsAreKnownByTheirUserAgents(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string][2]string{
		"Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)":         {"true", "ai_crawler"},
		"Mozilla/5.0 (compatible; ChatGPT-User/1.0)":                               {"true", "ai_assistant_user"},
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)": {"true", "search_engine"},
		"AhrefsBot/7.0":      {"true", "other_bot"},
		"openai-python/1.99": {"false", missing},
		"":                   {missing, missing},
	} {
		v := values(t, New(nil, nil, nil, nil), func(req *http.Request) { req.Header.Set("User-Agent", agent) })
		if bot, category := text(v.Get(descriptor(t, "ua:bot"))), text(v.Get(descriptor(t, "ua:bot_category"))); bot != want[0] || category != want[1] {
			t.Errorf("%q: bot %s, category %s", agent, bot, category)
		}
	}
}

// issuer signs tokens.
type issuer struct {
	key *ecdsa.PrivateKey
	id  string
}

func newIssuer(t *testing.T, id string) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{key, id}
}

func (i issuer) pem(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&i.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, claims any) string {
	t.Helper()
	opts := (&jose.SignerOptions{}).WithType("JWT")
	if id != "" {
		opts = opts.WithHeader("kid", id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (i issuer) sign(t *testing.T, claims any) string {
	return sign(t, jose.ES256, i.key, i.id, claims)
}

func bearing(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

type object = map[string]any

func in(d time.Duration) int64 { return time.Now().Add(d).Unix() }

// unsigned is a token with the algorithm none, or another header.
func unsigned(header string, claims object) string {
	body, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(body) + "."
}

func TestOnlyTokensThatHoldAreVerified(t *testing.T) {
	t.Parallel()
	ours, other := newIssuer(t, "k1"), newIssuer(t, "k1")
	config := &policy.JWT{
		Keys:    []policy.JWTKey{{KeyID: "k1", Algorithm: "ES256", PublicKey: ours.pem(t)}, {Algorithm: "HS256", SecretEnv: "SECRET"}},
		Issuers: policy.Strings{"us"}, Audiences: policy.Strings{"llm", "tools"}, LeewaySeconds: 60,
	}
	secret := []byte("0123456789abcdef0123456789abcdef")
	getenv := func(name string) string { return map[string]string{"SECRET": string(secret)}[name] }
	good := object{"org": "acme", "iss": "us", "aud": "llm", "exp": in(time.Hour)}
	with := func(name string, value any) object {
		c := maps.Clone(good)
		c[name] = value
		return c
	}
	for name, c := range map[string]struct {
		token    string
		verified bool
	}{
		"signed":                          {ours.sign(t, good), true},
		"signed with a secret":            {sign(t, jose.HS256, secret, "", good), true},
		"expired a moment ago":            {ours.sign(t, with("exp", in(-30*time.Second))), true},
		"expired":                         {ours.sign(t, with("exp", in(-2*time.Minute))), false},
		"not valid yet":                   {ours.sign(t, with("nbf", in(time.Hour))), false},
		"another issuer":                  {ours.sign(t, with("iss", "them")), false},
		"another audience":                {ours.sign(t, with("aud", "mail")), false},
		"one of its audiences":            {ours.sign(t, with("aud", []string{"mail", "tools"})), true},
		"another key":                     {other.sign(t, good), false},
		"another key id":                  {sign(t, jose.ES256, ours.key, "k2", good), false},
		"another secret":                  {sign(t, jose.HS256, append([]byte("x"), secret...), "", good), false},
		"public key as a secret":          {sign(t, jose.HS256, []byte(ours.pem(t)), "k1", good), false},
		"no algorithm":                    {unsigned(`{"alg":"none"}`, good), false},
		"no algorithm, signature claimed": {unsigned(`{"alg":"ES256","kid":"k1"}`, good) + "c2ln", false},
	} {
		for _, require := range []bool{false, true} {
			strict := *config
			strict.RequireVerified = require
			v := values(t, New(&strict, nil, getenv, nil), bearing(c.token))
			got, ok := v.Get(descriptor(t, "jwt:org"))
			wanted := c.verified || !require
			if ok != wanted || ok && (got.Text != "acme" || got.Unverified == c.verified) {
				t.Errorf("%s, only verified: %v: %+v, %v", name, require, got, ok)
			}
		}
	}
}

func TestClaimsWithoutKeysAreMarked(t *testing.T) {
	t.Parallel()
	token := newIssuer(t, "").sign(t, object{
		"org": "acme", "n": 12345678901234567, "flag": true, "off": false, "roles": []string{"a", "b"},
		"nested": object{"team": "x"}, "https://example.com/org": "u", "null": nil, "list": []any{object{}}, "empty": "",
	})
	v := values(t, New(nil, nil, nil, nil), bearing(token))
	for name, want := range map[string]string{
		"org": "acme", "n": "12345678901234567", "flag": "true", "off": "false", "roles": "a,b", "nested.team": "x",
		"https://example.com/org": "u", "null": missing, "nested": missing, "list": missing, "absent": missing, "org.x": missing, "empty": missing,
	} {
		got, ok := v.Get(descriptor(t, "jwt:"+name))
		if text(got, ok) != want || ok && !got.Unverified {
			t.Errorf("%s is %+v, %v; want %q, unverified", name, got, ok, want)
		}
	}
}

func TestWhatIsNoTokenHasNoClaims(t *testing.T) {
	t.Parallel()
	large := unsigned(`{"alg":"none"}`, object{"org": strings.Repeat("x", 1<<20)})
	for name, header := range map[string]string{
		"none": "", "an API key": "Bearer sk-abc", "another scheme": "Basic YTpi", "two parts": "Bearer a.b",
		"not base64": "Bearer a.!!.c", "not JSON": "Bearer e30.eA.c", "no object": "Bearer e30.W10.c", "1 MB": "Bearer " + large,
	} {
		v := values(t, New(nil, nil, nil, nil), func(r *http.Request) { r.Header.Set("Authorization", header) })
		if got, ok := v.Get(descriptor(t, "jwt:org")); ok {
			t.Errorf("%s: %.40q", name, got.Text)
		}
	}
}

// publishing is an issuer's server without a network.
type publishing func() (status int, set jose.JSONWebKeySet)

func (p publishing) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	status, set := p()
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(set)
	return w.Result(), nil
}

func TestPublishedKeysVerifyOnceTheyHaveArrived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours := newIssuer(t, "k1")
		status, served := http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &ours.key.PublicKey, KeyID: "k1", Algorithm: "ES256", Use: "sig"}}}
		client := &http.Client{Transport: publishing(func() (int, jose.JSONWebKeySet) { return status, served })}
		r := New(&policy.JWT{JWKSURL: "https://issuer.example/keys", RequireVerified: true}, nil, func(string) string { return "" }, client)
		org := func(i issuer) string {
			return text(values(t, r, bearing(i.sign(t, object{"org": "acme"}))).Get(descriptor(t, "jwt:org")))
		}
		if got := org(ours); got != missing {
			t.Fatalf("verified without a key: %q", got)
		}
		synctest.Wait()
		if got := org(ours); got != "acme" {
			t.Errorf("org is %q", got)
		}
		if got := org(newIssuer(t, "k1")); got != missing {
			t.Errorf("another key of that id verified: %q", got)
		}
		rotated := newIssuer(t, "k2")
		served = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &rotated.key.PublicKey, KeyID: "k2"}}}
		if got := org(rotated); got != missing {
			t.Errorf("verified before its key was published: %q", got)
		}
		synctest.Wait()
		if got := org(rotated); got != missing {
			t.Errorf("read again at once: %q", got)
		}
		<-time.After(30 * time.Second)
		org(rotated)
		synctest.Wait()
		if got := org(rotated); got != "acme" {
			t.Errorf("after the rotation: org is %q", got)
		}
		status = http.StatusNotFound
		<-time.After(time.Hour)
		org(rotated)
		synctest.Wait()
		if got, ok := values(t, r, bearing(rotated.sign(t, object{"org": "acme"}))).Get(descriptor(t, "jwt:org")); !ok || got.Unverified {
			t.Errorf("while the issuer is away: %+v, %v; want it verified", got, ok)
		}
	})
}
