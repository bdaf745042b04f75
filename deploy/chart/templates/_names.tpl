{{/* The name of the chart in labels. */}}
{{- define "unloop.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The beginning of the names of all objects. */}}
{{- define "unloop.fullname" -}}
{{- $name := include "unloop.name" . -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $both | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of a service's objects: root, service. */}}
{{- define "unloop.object" -}}
{{- printf "%s-%s" (include "unloop.fullname" .root) .service -}}
{{- end -}}

{{/* The name of the service at which other gateways ask over gRPC. */}}
{{- define "unloop.beside" -}}
{{- include "unloop.fullname" . }}-beside
{{- end -}}

{{/* The labels that select the pods of a service: root, service. */}}
{{- define "unloop.selector" -}}
app.kubernetes.io/name: {{ include "unloop.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .service }}
{{- end -}}

{{/* Name, namespace, labels and annotations of an object: root, service, and optionally name,
     labels and annotations. */}}
{{- define "unloop.metadata" -}}
name: {{ get . "name" | default (include "unloop.object" .) }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "unloop.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
  app.kubernetes.io/part-of: unloop
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  {{- with merge (dict) (get . "labels" | default dict) .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (get . "annotations" | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The service account of the pods. */}}
{{- define "unloop.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "unloop.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name: name a service account that exists, or set serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The image of a service: root, values. */}}
{{- define "unloop.image" -}}
{{- $image := .values.image -}}
{{- $name := $image.repository -}}
{{- with .root.Values.image.registry }}{{ $name = printf "%s/%s" (trimSuffix "/" .) $name }}{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The services that are installed, as a list. */}}
{{- define "unloop.services" -}}
- gateway
- detector
{{- if .Values.embedworker.enabled }}
- embedworker
{{- end }}
{{- if .Values.notifier.enabled }}
- notifier
{{- end }}
{{- end -}}
