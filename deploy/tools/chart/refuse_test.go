package chart

import (
	"strings"
	"testing"
)

func join(texts []string) string { return strings.Join(texts, " ") }

// TestBadValuesAreRefused expects each fault to be refused with an error that names the value.
func TestBadValuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, want string }{
		"unknown value":             {`{gatway: {replicas: 2}}`, "gatway"},
		"unknown value of a part":   {`{gateway: {replica: 2}}`, "replica"},
		"unknown value within":      {`{nats: {tls: {ca: x}}}`, "ca"},
		"a region without a name":   {`{nats: {origin: hub, init: {enabled: true}}}`, "nats.domain"},
		"a region without its job":  {`{nats: {domain: hub, regions: [eu]}}`, "nats.init.enabled"},
		"wrong type":                {`{detector: {replicas: "two"}}`, "/detector/replicas"},
		"no quantity":               {`{gateway: {resources: {limits: {memory: 1 GB}}}}`, "/gateway/resources/limits/memory"},
		"too little memory":         {`{gateway: {resources: {limits: {memory: 32Mi}}}}`, "gateway.resources.limits.memory is 32Mi"},
		"credentials in a URL":      {`{nats: {urls: ["nats://user:secret@nats:4222"]}}`, "/nats/urls/0"},
		"no NATS":                   {`{nats: {urls: []}}`, "/nats/urls"},
		"no secret":                 {`{nats: {auth: {type: creds}}}`, "nats.auth.secret: name the secret with the NATS credentials of the gateway"},
		"no type":                   {`{nats: {auth: {secret: x}}}`, "nats.auth.type"},
		"unknown type":              {`{nats: {auth: {type: token}}}`, "/nats/auth/type"},
		"a key as a value":          {`{gateway: {upstreamKeys: {openai: sk-secret}}}`, "/gateway/upstreamKeys/openai"},
		"keys for everybody":        {`{gateway: {upstreamKeys: {openai: {name: a, key: b}}}}`, "gateway.upstreamKeys"},
		"token without audience":    {`{gateway: {auth: {jwt: {url: "https://id.example/jwks"}}}}`, "gateway.auth.jwt.audiences"},
		"upstream without scheme":   {`{gateway: {upstreams: {openai: api.openai.com}}}`, "/gateway/upstreams/openai"},
		"no port":                   {`{gateway: {beside: {port: 0}}}`, "/gateway/beside/port"},
		"unknown reject":            {`{gateway: {reject: never}}`, "/gateway/reject"},
		"too little time to stop":   {`{gateway: {terminationGracePeriodSeconds: 60}}`, "gateway.terminationGracePeriodSeconds is 60: a gateway takes up to 140 seconds"},
		"longer grace":              {`{notifier: {webhook: {graceSeconds: 60}}}`, "notifier.terminationGracePeriodSeconds is 30"},
		"no duration":               {`{gateway: {checkTimeout: "50"}}`, "/gateway/checkTimeout"},
		"autoscaling without CPU":   {`{detector: {autoscaling: {enabled: true}, resources: {requests: {cpu: null}}}}`, "detector.resources.requests.cpu"},
		"two scalers":               {`{detector: {autoscaling: {enabled: true}, keda: {enabled: true}}}`, "detector.autoscaling and detector.keda"},
		"more at least than most":   {`{gateway: {autoscaling: {enabled: true, minReplicas: 20}}}`, "gateway.autoscaling.minReplicas is 20"},
		"KEDA: more than most":      {`{detector: {keda: {enabled: true, minReplicas: 20}}}`, "detector.keda.minReplicas is 20"},
		"two bundles":               {`{policies: {bundle: "x: 1", configMap: {name: x}}}`, "policies.bundle and policies.configMap"},
		"two lists of endpoints":    {`{notifier: {notify: {config: "x: 1", configMap: {name: x}}}}`, "notifier.notify.config and notifier.notify.configMap"},
		"two webhooks":              {`{notifier: {webhook: {url: "https://x.example/", urlSecret: {name: x}}}}`, "notifier.webhook.url and notifier.webhook.urlSecret"},
		"nothing to sign":           {`{notifier: {webhook: {signingSecret: {name: x}}}}`, "notifier.webhook.signingSecret"},
		"dashboard for everybody":   {`{notifier: {ingress: {enabled: true, hosts: [x.example]}}}`, "notifier.ingress"},
		"ingress without a host":    {`{gateway: {ingress: {enabled: true}}}`, "gateway.ingress.hosts"},
		"Redis without a URL":       {`{embedworker: {vectorStore: redis}}`, "embedworker.redisSecret.name"},
		"a model for no embedder":   {`{embedworker: {embedder: lexical, model: {claim: x}}}`, "embedworker.model.claim"},
		"no service account":        {`{serviceAccount: {create: false}}`, "serviceAccount.name"},
		"no network":                {`{notifier: {allowCIDRs: [10.0.0.1]}}`, "/notifier/allowCIDRs/0"},
		"no such level":             {`{log: {level: verbose}}`, "/log/level"},
		"a variable without a name": {`{gateway: {extraEnv: [{value: x}]}}`, "/gateway/extraEnv/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := template(parse(t, c.values))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}
