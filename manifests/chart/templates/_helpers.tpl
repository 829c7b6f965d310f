{{- /* Names are fixed, not the release's: one Tidelock decides over a cluster, and it looks for its objects by name. */}}

{{- define "tidelock.selectorLabels" -}}
app.kubernetes.io/name: tidelock
{{- end }}

{{- define "tidelock.labels" -}}
{{ include "tidelock.selectorLabels" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tidelock.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}
