{{/* A Deployment: root, service, values, and grace, the seconds that the service takes to stop. */}}
{{- define "unloop.deployment" -}}
{{- $values := .values -}}
{{- $args := include (printf "unloop.args.%s" .service) . | fromYamlArray -}}
{{- $mounts := concat (include "unloop.mounts.common" . | fromYamlArray) (include (printf "unloop.mounts.%s" .service) . | fromYamlArray) -}}
{{- if lt (int $values.terminationGracePeriodSeconds) (int .grace) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds is %d: a %s takes up to %d seconds to stop, so set it to %d or more" .service (int $values.terminationGracePeriodSeconds) .service (int .grace) (int .grace)) -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "unloop.metadata" (merge (dict "annotations" (dict "unloop/replicas" (toString $values.replicas))) .) | nindent 2 }}
spec:
  {{- with include "unloop.replicas" . }}
  replicas: {{ . }}
  {{- end }}
  revisionHistoryLimit: 3
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  selector:
    matchLabels:
      {{- include "unloop.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- merge (include "unloop.selector" . | fromYaml) $values.podLabels .root.Values.commonLabels | toYaml | nindent 8 }}
      {{- with merge (dict) $values.podAnnotations .root.Values.commonAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "unloop.serviceAccount" .root }}
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- include "unloop.confined" .root | nindent 6 }}
      {{- with include "unloop.spread" . }}
      topologySpreadConstraints:
        {{- . | trim | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      containers:
        - name: {{ .service }}
          image: {{ include "unloop.image" . | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- concat (include "unloop.args.common" . | fromYamlArray) $args $values.extraArgs | toYaml | nindent 12 }}
          {{- with include "unloop.env" . }}
          env:
            {{- . | trim | nindent 12 }}
          {{- end }}
          ports:
            {{- if eq .service "gateway" }}
            - {name: http, containerPort: 8080, protocol: TCP}
            {{- if $values.beside.enabled }}
            - {name: beside, containerPort: 9001, protocol: TCP}
            {{- end }}
            {{- end }}
            - {name: admin, containerPort: 8081, protocol: TCP}
          {{- include "unloop.probes" . | nindent 10 }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          {{- include "unloop.confinedContainer" $mounts | nindent 10 }}
      {{- with $mounts }}
      volumes:
        {{- range . }}
        {{- include "unloop.volume" . | nindent 8 }}
        {{- end }}
      {{- end }}
{{- end -}}

{{/* What every pod has, so that it can do nothing but its work. */}}
{{- define "unloop.confined" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* The same of a container, with its mounts. */}}
{{- define "unloop.confinedContainer" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with . }}
volumeMounts:
  {{- range . }}
  - {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Not empty if something else than the Deployment decides the number of pods: service, values. */}}
{{- define "unloop.scaled" -}}
{{- if or (dig "autoscaling" "enabled" false .values) (dig "keda" "enabled" false .values) }}yes{{ end -}}
{{- end -}}

{{/* The number of replicas that is running, if the Deployment exists: it belongs to whoever scales it. A new
     value takes effect unless something else scaled the Deployment; applying it would be a conflict then, in
     the middle of the upgrade. Empty for a new Deployment with autoscaling: root, service, values. */}}
{{- define "unloop.replicas" -}}
{{- $live := lookup "apps/v1" "Deployment" .root.Release.Namespace (include "unloop.object" .) -}}
{{- if $live -}}
{{- $runs := dig "spec" "replicas" 1 $live | int -}}
{{- $asked := dig "metadata" "annotations" "unloop/replicas" (toString .values.replicas) $live | int -}}
{{- $want := int .values.replicas -}}
{{- if or (include "unloop.scaled" .) (eq $want $asked) -}}
{{- $runs -}}
{{- else if or (eq $runs $asked) (eq $runs $want) -}}
{{- $want -}}
{{- else -}}
{{- fail (printf "%s.replicas changed from %d to %d, but something else scaled the Deployment to %d: leave it at %d, which keeps the %d that run, or run `kubectl -n %s scale deployment/%s --replicas=%d` first" .service $asked $want $runs $asked $runs .root.Release.Namespace (include "unloop.object" .) $want) -}}
{{- end -}}
{{- else if not (include "unloop.scaled" .) -}}
{{- .values.replicas -}}
{{- end -}}
{{- end -}}

{{/* A volume of a mount: name, and secret, configMap or claim, and keys for some of its files. */}}
{{- define "unloop.volume" -}}
- name: {{ .name }}
  {{- if get . "secret" }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
  {{- else if get . "configMap" }}
  configMap:
    name: {{ .configMap }}
  {{- else }}
  persistentVolumeClaim:
    claimName: {{ .claim }}
    readOnly: true
  {{- end }}
  {{- with get . "keys" }}
    items:
      {{- range . }}
      - {key: {{ . | quote }}, path: {{ . | quote }}}
      {{- end }}
  {{- end }}
{{- end -}}

{{- define "unloop.spread" -}}
{{- range $key, $when := dict "topology.kubernetes.io/zone" .root.Values.topologySpread.zone "kubernetes.io/hostname" .root.Values.topologySpread.node }}
{{- if $when }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: {{ $when }}
  labelSelector:
    matchLabels:
      {{- include "unloop.selector" $ | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- end -}}

{{/* The probes. A gateway that needs no NATS to go on is started when it has reached NATS once. */}}
{{- define "unloop.probes" -}}
{{- $probes := .root.Values.probes -}}
{{- $keeps := and (eq .service "gateway") .values.readyWithoutNATS -}}
startupProbe:
  httpGet: {path: {{ ternary "/readyz" "/healthz" $keeps }}, port: admin}
  periodSeconds: 2
  timeoutSeconds: {{ $probes.timeoutSeconds }}
  failureThreshold: {{ div (add $probes.startupSeconds 1) 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: {{ $probes.periodSeconds }}
  timeoutSeconds: {{ $probes.timeoutSeconds }}
  failureThreshold: 6
readinessProbe:
  httpGet: {path: {{ ternary "/healthz" "/readyz" $keeps }}, port: admin}
  periodSeconds: {{ $probes.periodSeconds }}
  timeoutSeconds: {{ $probes.timeoutSeconds }}
  failureThreshold: 2
{{- end -}}

{{/* The environment of a container. Flags are arguments, secrets are files; this is the rest. */}}
{{- define "unloop.env" -}}
{{- with dig "resources" "limits" "memory" "" .values }}
- {name: GOMEMLIMIT, value: {{ printf "%dMiB" (include "unloop.mebibytes" (dict "quantity" . "percent" $.values.memoryPercent "service" $.service) | int) | quote }}}
{{- end }}
{{- with .root.Values.tracing }}
{{- if .endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
- {name: OTEL_EXPORTER_OTLP_PROTOCOL, value: {{ .protocol | quote }}}
{{- if .headersSecret.name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  {{- include "unloop.fromSecret" .headersSecret | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq .service "gateway" }}
{{- if .values.callerHashKeySecret.name }}
- name: UNLOOP_CALLER_HASH_KEY
  {{- include "unloop.fromSecret" .values.callerHashKeySecret | nindent 2 }}
{{- end }}
{{- else if eq .service "embedworker" }}
{{- if eq .values.vectorStore "redis" }}
- name: UNLOOP_REDIS
  {{- include "unloop.fromSecret" .values.redisSecret | nindent 2 }}
{{- end }}
{{- if .values.model.claim }}
- {name: XDG_DATA_HOME, value: /models}
{{- end }}
{{- else if eq .service "notifier" }}
{{- if .values.webhook.urlSecret.name }}
- name: UNLOOP_WEBHOOK
  {{- include "unloop.fromSecret" .values.webhook.urlSecret | nindent 2 }}
{{- end }}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The value of a variable that a secret holds: name, key. */}}
{{- define "unloop.fromSecret" -}}
valueFrom:
  secretKeyRef: {name: {{ .name }}, key: {{ .key | quote }}}
{{- end -}}

{{/* A part of a quantity of memory, in MiB: quantity, percent, service. */}}
{{- define "unloop.mebibytes" -}}
{{- $quantity := toString .quantity -}}
{{- $number := regexFind "^[0-9]+" $quantity | int64 -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $bytes := mul $number (get $units (regexFind "[A-Za-z]*$" $quantity) | int64) -}}
{{- $part := div (div (mul $bytes .percent) 100) 1048576 -}}
{{- if lt $part 32 -}}
{{- fail (printf "%s.resources.limits.memory is %s: %s percent of it (memoryPercent) are less than 32 MiB" .service $quantity (toString .percent)) -}}
{{- end -}}
{{- $part -}}
{{- end -}}
