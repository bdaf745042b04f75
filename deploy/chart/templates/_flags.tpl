{{/* The flags that every service has: root, service, values. */}}
{{- define "unloop.args.common" -}}
{{- $values := .root.Values -}}
- --admin=:8081
{{- if $values.adminAuth.secret.name }}
- --admin-auth=key:file:/etc/unloop/admin/{{ $values.adminAuth.secret.key }}
{{- end }}
{{- if include "unloop.open" . }}
- --insecure
{{- end }}
- --log-format={{ $values.log.format }}
- --log-level={{ $values.log.level }}
{{ include "unloop.args.nats" . }}
{{- end -}}

{{/* The flags of connections to NATS: root, service. */}}
{{- define "unloop.args.nats" -}}
{{- $nats := .root.Values.nats -}}
{{- if and (gt (int $nats.partitions) 1) (not $nats.init.enabled) }}
{{- fail "nats.partitions: the job makes them; set nats.init.enabled, or run `unloop nats init --partitions` yourself and leave the value at 1" }}
{{- end }}
{{- if and (or $nats.origin $nats.regions) (not (and $nats.domain $nats.init.enabled)) }}
{{- fail "nats.origin and nats.regions: the job makes the streams of a region; set nats.init.enabled, and nats.domain to the name of this region" }}
{{- end }}
- --replicas={{ $nats.replicas }}
- --nats={{ join "," $nats.urls }}
{{- with $nats.domain }}
- --nats-domain={{ . }}
{{- end }}
{{- with $nats.inboxPrefix }}
- --nats-inbox-prefix={{ replace "SERVICE" $.service . }}
{{- end }}
{{- if eq $nats.auth.type "creds" }}
- --nats-creds=/etc/unloop/nats/{{ .service }}.creds
{{- else if eq $nats.auth.type "nkey" }}
- --nats-nkey=/etc/unloop/nats/{{ .service }}.nk
{{- else if eq $nats.auth.type "password" }}
- --nats-user-file=/etc/unloop/nats/{{ .service }}.user
- --nats-password-file=/etc/unloop/nats/{{ .service }}.password
{{- end }}
{{- with $nats.sealKey }}
{{- if eq $nats.auth.type "none" }}
{{- fail "nats.sealKey: seals need users; set nats.auth.type and nats.auth.secret, or drop it" }}
{{- end }}
- --seal-key={{ . }}
{{- if and (eq $.service "operator") (not $nats.origin) }}
- --seal-seed=/etc/unloop/nats/seal.nk
{{- end }}
{{- end }}
{{- if $nats.tls.caSecret.name }}
- --nats-tls-ca=/etc/unloop/nats-ca/{{ $nats.tls.caSecret.key }}
{{- end }}
{{- if $nats.tls.clientSecret }}
- --nats-tls-cert=/etc/unloop/nats-client/tls.crt
- --nats-tls-key=/etc/unloop/nats-client/tls.key
{{- end }}
{{- end -}}

{{/* Not empty if a port of the service asks for no key. */}}
{{- define "unloop.open" -}}
{{- if or (not .root.Values.adminAuth.secret.name) (and (eq .service "gateway") (not (include "unloop.guarded" .))) }}yes{{ end -}}
{{- end -}}

{{/* Not empty if clients of the gateway need a key or a token. */}}
{{- define "unloop.guarded" -}}
{{- if or .values.auth.keysSecret.name .values.auth.jwt.url }}yes{{ end -}}
{{- end -}}

{{/* The host names of a Kubernetes service, beside those that are allowed: root, service, values. */}}
{{- define "unloop.hosts" -}}
{{- $name := include "unloop.object" . -}}
{{- $namespace := .root.Release.Namespace -}}
{{- with .values.allowHosts }}
{{- range concat . (list $name (printf "%s.%s" $name $namespace) (printf "%s.%s.svc" $name $namespace) (printf "%s.%s.svc.cluster.local" $name $namespace)) }}
- --allow-host={{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "unloop.args.gateway" -}}
{{- $values := .values -}}
{{- if and $values.upstreamKeys (not (include "unloop.guarded" .)) (not $values.insecure) -}}
{{- fail "gateway.upstreamKeys: without gateway.auth everybody who reaches the gateway would use the providers' keys; set gateway.auth.keysSecret or gateway.auth.jwt, or allow it with gateway.insecure" -}}
{{- end -}}
- --listen=:8080
{{- if $values.beside.enabled }}
- --beside-listen=:9001
{{- end }}
{{- range $name, $url := $values.upstreams }}
- --upstream={{ $name }}={{ $url }}
{{- end }}
{{- range $name, $secret := $values.upstreamKeys }}
- --upstream-key={{ $name }}=file:/etc/unloop/upstream-keys/{{ $name }}/{{ $secret.key }}
{{- end }}
{{- if $values.upstreamCA.configMap }}
- --upstream-ca=/etc/unloop/upstream-ca/{{ $values.upstreamCA.key }}
{{- end }}
{{- if $values.auth.keysSecret.name }}
- --auth=key:file:/etc/unloop/auth/{{ $values.auth.keysSecret.key }}
{{- end }}
{{- with $values.auth.jwt }}
{{- if .url }}
- --auth=jwt:{{ .url }}
{{- with .issuer }}
- --auth-issuer={{ . }}
{{- end }}
{{- if not .audiences }}
{{- fail "gateway.auth.jwt.audiences: name the audiences of which a token must have one" }}
{{- end }}
{{- range .audiences }}
- --auth-audience={{ . }}
{{- end }}
{{- with .tenantClaim }}
- --auth-tenant-claim={{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- include "unloop.hosts" . }}
{{- range $values.allowOrigins }}
- --allow-origin={{ . }}
{{- end }}
- --reject={{ $values.reject }}
{{- if include "unloop.policies" .root }}
- --policies=/etc/unloop/policies/{{ include "unloop.policies.key" .root }}
{{- end }}
{{- range $values.jwksAllowCIDRs }}
- --jwks-allow-cidr={{ . }}
{{- end }}
- --check-timeout={{ $values.checkTimeout }}
- --max-inspect-bytes={{ int64 $values.maxInspectBytes }}
{{- with $values.maxBodyMemory }}
- --max-body-memory={{ int64 . }}
{{- end }}
- --max-delayed={{ int64 $values.maxDelayed }}
{{- with $values.project }}
- --project={{ . }}
{{- end }}
- --shutdown-delay={{ $values.shutdownDelaySeconds }}s
- --shutdown-grace={{ $values.shutdownGraceSeconds }}s
{{- if $values.tls.secret }}
- --tls-cert=/etc/unloop/tls/tls.crt
- --tls-key=/etc/unloop/tls/tls.key
{{- end }}
{{- end -}}

{{- define "unloop.args.detector" -}}
{{- end -}}

{{- define "unloop.args.embedworker" -}}
{{- if and (eq .values.vectorStore "redis") (not .values.redisSecret.name) -}}
{{- fail "embedworker.redisSecret.name: vectorStore redis needs a secret with the URL of Redis" -}}
{{- end -}}
{{- if and (eq .values.embedder "lexical") .values.model.claim -}}
{{- fail "embedworker.model.claim: the embedder lexical has no model; set embedworker.embedder to onnx, or drop the claim" -}}
{{- end -}}
- --embedder={{ .values.embedder }}
- --model-tokens={{ int64 .values.model.tokens }}
- --model-threads={{ int64 .values.model.threads }}
- --embed-queue={{ int64 .values.queue }}
- --embed-cache={{ int64 .values.cache }}
- --vector-store={{ .values.vectorStore }}
{{- end -}}

{{- define "unloop.args.notifier" -}}
{{- $webhook := .values.webhook -}}
{{- $endpoint := or $webhook.url $webhook.urlSecret.name -}}
{{- if and $webhook.url $webhook.urlSecret.name -}}
{{- fail "notifier.webhook.url and notifier.webhook.urlSecret are both set; drop one of them" -}}
{{- end -}}
{{- if and $webhook.signingSecret.name (not $endpoint) -}}
{{- fail "notifier.webhook.signingSecret: there is nothing to sign; set notifier.webhook.url or notifier.webhook.urlSecret, or drop it" -}}
{{- end -}}
{{- if and .values.ingress.enabled (not .root.Values.adminAuth.secret.name) -}}
{{- fail "notifier.ingress: the dashboard shows tenants and models to everybody who reaches it; set adminAuth.secret" -}}
{{- end -}}
{{- if include "unloop.notify" .root }}
- --notify=/etc/unloop/notify/{{ include "unloop.notify.key" .root }}
{{- end }}
{{- with $webhook.url }}
- --webhook={{ . }}
{{- end }}
{{- if $webhook.signingSecret.name }}
- --webhook-secret-file=/etc/unloop/webhook/{{ $webhook.signingSecret.key }}
{{- end }}
{{- range .values.allowCIDRs }}
- --allow-cidr={{ . }}
{{- end }}
- --webhook-timeout={{ $webhook.timeout }}
- --webhook-concurrency={{ int64 $webhook.concurrency }}
- --webhook-grace={{ $webhook.graceSeconds }}s
- {{ ternary "--dashboard" "--no-dashboard" .values.dashboard }}
{{- include "unloop.hosts" . }}
{{- end -}}

{{/* The ConfigMap with the policies, "" without one; and the key in it. */}}
{{- define "unloop.policies" -}}
{{- with .Values.policies -}}
{{- if and (get . "bundle") .configMap.name }}{{ fail "policies.bundle and policies.configMap are both set; drop one of them" }}{{ end -}}
{{- if get . "bundle" }}{{ include "unloop.fullname" $ }}-policies{{ else }}{{ .configMap.name }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "unloop.policies.key" -}}
{{- ternary "policies.yaml" .Values.policies.configMap.key (not (empty (get .Values.policies "bundle"))) -}}
{{- end -}}

{{/* The ConfigMap with endpoints and routes, "" without one; and the key in it. */}}
{{- define "unloop.notify" -}}
{{- with .Values.notifier.notify -}}
{{- if and (get . "config") .configMap.name }}{{ fail "notifier.notify.config and notifier.notify.configMap are both set; drop one of them" }}{{ end -}}
{{- if get . "config" }}{{ include "unloop.fullname" $ }}-notify{{ else }}{{ .configMap.name }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "unloop.notify.key" -}}
{{- ternary "notify.yaml" .Values.notifier.notify.configMap.key (not (empty (get .Values.notifier.notify "config"))) -}}
{{- end -}}
