{{- /* Names are fixed, not the release's: one Tidelock decides over a cluster, and it looks for its objects by name. */}}

{{- define "tidelock.selectorLabels" -}}
app.kubernetes.io/name: tidelock
{{- end }}

{{- define "tidelock.labels" -}}
{{ include "tidelock.labelsWith" (list . (dict)) }}
{{- end }}

{{- /* The labels of an object, for the context and further labels. The chart's own take precedence. */}}
{{- define "tidelock.labelsWith" -}}
{{- $context := index . 0 -}}
{{- $own := dict
  "app.kubernetes.io/instance" $context.Release.Name
  "app.kubernetes.io/version" $context.Chart.AppVersion
  "app.kubernetes.io/managed-by" $context.Release.Service
  "helm.sh/chart" (printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_") -}}
{{- $name := include "tidelock.selectorLabels" $context | fromYaml -}}
{{- mergeOverwrite (dict) $context.Values.commonLabels (index . 1) $own $name | toYaml }}
{{- end }}

{{- define "tidelock.podLabels" -}}
{{- $name := include "tidelock.selectorLabels" . | fromYaml -}}
{{- mergeOverwrite (dict) .Values.commonLabels .Values.podLabels $name | toYaml }}
{{- end }}

{{- define "tidelock.monitoringNamespace" -}}
{{ .Values.monitoring.namespace | default .Release.Namespace }}
{{- end }}

{{- /* Not empty if another component keeps the certificate of the extender. */}}
{{- define "tidelock.foreignCertificate" -}}
{{- if or .Values.certManager.enabled .Values.extender.caBundle }}true{{ end -}}
{{- end }}

{{- define "tidelock.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}
