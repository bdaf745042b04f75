{{/* The mounts of every service, each with its volume: name, path, and secret, configMap or claim; keys
     names the files of those that a pod gets. Whole folders are mounted, never single files: Kubernetes
     then replaces their content, which the services follow. */}}
{{- define "unloop.mounts.common" -}}
{{- with .root.Values.adminAuth.secret }}
{{- if .name }}
- {name: admin, path: /etc/unloop/admin, secret: {{ .name }}, keys: [{{ .key | quote }}]}
{{- end }}
{{- end }}
{{ include "unloop.mounts.nats" . }}
{{- end -}}

{{/* What connections to NATS need: root, service. */}}
{{- define "unloop.mounts.nats" -}}
{{- $nats := .root.Values.nats -}}
{{- if ne $nats.auth.type "none" }}
{{- $secret := get $nats.auth.secrets .service | default $nats.auth.secret }}
- name: nats
  path: /etc/unloop/nats
  secret: {{ required (printf "nats.auth.secret: name the secret with the NATS credentials of the %s (nats.auth.type is %s)" .service $nats.auth.type) $secret }}
  keys:
    {{- range get (dict "creds" (list "creds") "nkey" (list "nk") "password" (list "user" "password")) $nats.auth.type }}
    - {{ $.service }}.{{ . }}
    {{- end }}
    {{- if and $nats.sealKey (eq .service "operator") (not $nats.origin) }}
    - seal.nk
    {{- end }}
{{- else if or $nats.auth.secret $nats.auth.secrets }}
{{- fail "nats.auth.type: nats.auth.secret is set; set the type to creds, nkey or password" }}
{{- end }}
{{- with $nats.tls.caSecret }}
{{- if .name }}
- {name: nats-ca, path: /etc/unloop/nats-ca, secret: {{ .name }}, keys: [{{ .key | quote }}]}
{{- end }}
{{- end }}
{{- with $nats.tls.clientSecret }}
- {name: nats-client, path: /etc/unloop/nats-client, secret: {{ . }}, keys: [tls.crt, tls.key]}
{{- end }}
{{- end -}}

{{- define "unloop.mounts.gateway" -}}
{{- $values := .values -}}
{{- with include "unloop.policies" .root }}
- {name: policies, path: /etc/unloop/policies, configMap: {{ . }}, keys: [{{ include "unloop.policies.key" $.root | quote }}]}
{{- end }}
{{- range $name, $secret := $values.upstreamKeys }}
- {name: upstream-key-{{ $name }}, path: /etc/unloop/upstream-keys/{{ $name }}, secret: {{ $secret.name }}, keys: [{{ $secret.key | quote }}]}
{{- end }}
{{- with $values.upstreamCA }}
{{- if .configMap }}
- {name: upstream-ca, path: /etc/unloop/upstream-ca, configMap: {{ .configMap }}, keys: [{{ .key | quote }}]}
{{- end }}
{{- end }}
{{- with $values.auth.keysSecret }}
{{- if .name }}
- {name: auth, path: /etc/unloop/auth, secret: {{ .name }}, keys: [{{ .key | quote }}]}
{{- end }}
{{- end }}
{{- with $values.tls.secret }}
- {name: tls, path: /etc/unloop/tls, secret: {{ . }}, keys: [tls.crt, tls.key]}
{{- end }}
{{- end -}}

{{- define "unloop.mounts.detector" -}}
{{- end -}}

{{- define "unloop.mounts.embedworker" -}}
{{- with .values.model.claim }}
- {name: model, path: /models/unloop, claim: {{ . }}}
{{- end }}
{{- end -}}

{{- define "unloop.mounts.notifier" -}}
{{- with include "unloop.notify" .root }}
- {name: notify, path: /etc/unloop/notify, configMap: {{ . }}, keys: [{{ include "unloop.notify.key" $.root | quote }}]}
{{- end }}
{{- range .values.secrets }}
- {name: secret-{{ . }}, path: /etc/unloop/secrets/{{ . }}, secret: {{ . }}}
{{- end }}
{{- with .values.webhook.signingSecret }}
{{- if .name }}
- {name: webhook, path: /etc/unloop/webhook, secret: {{ .name }}, keys: [{{ .key | quote }}]}
{{- end }}
{{- end }}
{{- end -}}
