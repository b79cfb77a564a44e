{{- define "hami.fullname" -}}
{{- default (ternary .Release.Name (printf "%s-hami" .Release.Name) (contains "hami" .Release.Name)) .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "hami.namespace" -}}{{ default .Release.Namespace .Values.namespaceOverride }}{{- end -}}
{{- define "hami.scheduler" -}}{{ include "hami.fullname" . }}-scheduler{{- end -}}
{{- define "hami.plugin" -}}{{ include "hami.fullname" . }}-device-plugin{{- end -}}
{{- define "hami.tls" -}}{{ include "hami.scheduler" . }}-tls{{- end -}}
{{- define "hami.webhook" -}}{{ include "hami.fullname" . }}-webhook{{- end -}}
{{- define "hami.admission" -}}{{ include "hami.fullname" . }}-admission{{- end -}}

{{- define "hami.selector" -}}
app.kubernetes.io/name: hami
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hami.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{ include "hami.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The server's version without a vendor's suffix: v1.36.2+k3s1 -> v1.36.2 */}}
{{- define "hami.strippedKubeVersion" -}}
{{- regexReplaceAll "^(v[0-9]+\\.[0-9]+\\.[0-9]+)(.*)$" .Capabilities.KubeVersion.Version "$1" -}}
{{- end -}}

{{- define "hami.kubeSchedulerTag" -}}
{{- default (include "hami.strippedKubeVersion" .) .Values.scheduler.kubeScheduler.imageTag -}}
{{- end -}}

{{- define "hami.certgenImage" -}}
{{- $patch := .Values.scheduler.patch -}}
{{- ternary $patch.imageNew $patch.image (ge (regexReplaceAll "[^0-9]" .Capabilities.KubeVersion.Minor "" | int) 22) -}}
{{- end -}}
