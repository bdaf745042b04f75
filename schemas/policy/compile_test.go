package policy_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/policy"
)

func TestPriceInUSD(t *testing.T) {
	t.Parallel()
	half := 0.5
	tests := []struct {
		price                 policy.Price
		input, cached, output int
		want                  float64
	}{
		{policy.Price{Input: 2, Output: 10}, 1_000_000, 0, 0, 2},
		{policy.Price{Input: 2, Output: 10}, 1_000_000, 1_000_000, 100_000, 3},
		{policy.Price{Input: 2, Output: 10, CachedInput: &half}, 1_000_000, 500_000, 0, 1.25},
	}
	for _, tt := range tests {
		if got := tt.price.USD(tt.input, tt.cached, tt.output); got != tt.want {
			t.Errorf("%+v: %v USD", tt, got)
		}
	}
}

func TestJWTKeysParse(t *testing.T) {
	t.Parallel()
	key, err := mustParse(t, string(samples(t)["full.yaml"])).JWT.Keys[1].Public()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := key.(*ecdsa.PublicKey); !ok {
		t.Errorf("an ES256 key is a %T", key)
	}
}

func TestKeysFitTheirAlgorithmsOnly(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edKey, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dhKey, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		key  any
		fits string
	}{{rsaKey.Public(), "RS256 PS512"}, {edKey, "EdDSA"}, {dhKey.Public(), ""}}
	for _, tt := range tests {
		der, err := x509.MarshalPKIXPublicKey(tt.key)
		if err != nil {
			t.Fatal(err)
		}
		text := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		for _, algorithm := range []string{"RS256", "PS512", "ES256", "EdDSA"} {
			key := policy.JWTKey{Algorithm: algorithm, PublicKey: text}
			if _, err := key.Public(); (err == nil) != strings.Contains(tt.fits, algorithm) {
				t.Errorf("%T for %s: %v", tt.key, algorithm, err)
			}
		}
	}
	key := policy.JWTKey{Algorithm: "RS256", PublicKey: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"}
	if _, err := key.Public(); err == nil {
		t.Error("a PEM block of nonsense is a key")
	}
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	for period, want := range map[string]int64{"5m": 300, "1h": 3600, "1d": 86400, "7d": 604800} {
		if got := (&policy.CostBased{Period: period}).PeriodSeconds(); got != want {
			t.Errorf("%s has %d seconds", period, got)
		}
	}
}

func TestDescriptors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]policy.Descriptor{
		"jwt:org_id":                   {Source: "jwt", Name: "org_id"},
		"jwt:https://claims.example/x": {Source: "jwt", Name: "https://claims.example/x"},
		"header:X-Tool-Name":           {Source: "header", Name: "x-tool-name"},
		"query:Team":                   {Source: "query", Name: "Team"},
		"ip:address":                   {Source: "ip", Name: "address"},
		"ua:bot_category":              {Source: "ua", Name: "bot_category"},
		"caller":                       {Source: "caller"},
		"tenant":                       {Source: "tenant"},
		"session":                      {Source: "session"},
		"project":                      {Source: "project"},
		"model":                        {Source: "model"},
	} {
		if got, err := policy.ParseDescriptor(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "jwt", "jwt:", "jwt:a b", "caller:x", "ip:planet", "ua:", "cookie:x", "header:" + strings.Repeat("x", 129)} {
		if d, err := policy.ParseDescriptor(text); err == nil {
			t.Errorf("%q is %+v", text, d)
		}
	}
	for text, want := range map[string]string{
		"ip:country": "X-Country-Code", "ip:asn": "X-ASN", "ip:type": "X-ASN-Type", "ip:tor": "X-Tor-Exit", "ip:address": "", "ua:bot": "", "header:asn": "",
	} {
		if d, err := policy.ParseDescriptor(text); err != nil || d.Proxied() != want {
			t.Errorf("%s is told in the header %q, %v; want %q", text, d.Proxied(), err, want)
		}
	}
}

func TestStepsOfDetectors(t *testing.T) {
	t.Parallel()
	spec := func(s string) policy.Spec { return mustParse(t, onePolicy(s)).Policies[0].Spec }
	written := func(steps []policy.Step) string {
		var all []string
		for _, s := range steps {
			all = append(all, fmt.Sprintf("%d %s", s.At, s.Action))
		}
		return strings.Join(all, ", ")
	}
	escalation := "escalation: [{at: 3, action: hint}, {at: 5, action: throttle}, {at: 8, action: reject}]"
	for name, tt := range map[string]struct {
		steps []policy.Step
		want  string
	}{
		"prompt fires above max_hits":    {spec("{prompt: {}}").Prompt.Steps(), "6 reject"},
		"prompt escalates":               {spec("{prompt: {" + escalation + "}}").Prompt.Steps(), "3 hint, 5 throttle, 8 reject"},
		"prompts of several sessions":    {spec("{prompt: {" + escalation + "}}").Prompt.TogetherSteps(), "5 hint, 9 throttle, 15 reject"},
		"bodies that can't be read":      {spec("{prompt: {}}").Prompt.UninspectedSteps(), "21 warn, 41 throttle"},
		"request fires at the threshold": {spec("{loop_detection: {enabled: true, window_seconds: 1, threshold_identical_requests: 4}}").LoopDetection.Steps(), "4 reject"},
		"cycle fires at its repeats":     {spec("{cycle: {}}").Cycle.Steps(), "3 reject"},
		"semantic hints, then rejects":   {spec("{semantic: {reject_after: 8}}").Semantic.Steps(), "2 hint, 8 reject"},
		"semantic never rejects":         {spec("{semantic: {}}").Semantic.Steps(), "2 hint"},
		"semantic rejects at once":       {spec("{semantic: {reject_after: 1}}").Semantic.Steps(), "1 reject"},
		"semantic escalates":             {spec("{semantic: {" + escalation + "}}").Semantic.Steps(), "3 hint, 5 throttle, 8 reject"},
		"semantic already breaks":        {spec("{semantic: {action: break}}").Semantic.Steps(), "1 break"},
	} {
		if got := written(tt.steps); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestActionsHaveAnOrder(t *testing.T) {
	t.Parallel()
	order := []policy.Action{policy.Allow, policy.Warn, policy.Hint, policy.Throttle, policy.Reject, policy.Break}
	for i, a := range order {
		if a.Strength() != i {
			t.Errorf("%s has strength %d, want %d", a, a.Strength(), i)
		}
	}
	if policy.Action("other").Strength() != 0 {
		t.Error("an unknown action must be as weak as allow")
	}
}
