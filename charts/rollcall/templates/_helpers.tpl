{{/* The name of all objects. 50 characters leave room for suffixes in names that are limited to 63. */}}
{{- define "rollcall.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of objects that belong to no namespace. They are the release's, so two releases of one name in two
namespaces would meet in them: Helm refuses the second, which is right, as both would inject into the same workloads. */}}
{{- define "rollcall.clusterName" -}}
{{- include "rollcall.fullname" . -}}
{{- end -}}

{{/* Labels that select the Pods. They never change: a Deployment's selector is immutable. */}}
{{- define "rollcall.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rollcall.labels" -}}
{{ include "rollcall.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "rollcall.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the CA, and the Lease of the leader election. Both are made by the manager. */}}
{{- define "rollcall.secretName" -}}
{{- printf "%s-ca" (include "rollcall.fullname" .) -}}
{{- end -}}

{{- define "rollcall.leaseName" -}}
rollcall
{{- end -}}

{{/* The namespaces that Rollcall works in. The cluster's own workloads and this release can always start. What the values
say is added, never put in place. */}}
{{- define "rollcall.namespaceSelector" -}}
{{- with .Values.webhook.namespaceSelector.matchLabels -}}
matchLabels:
  {{- toYaml . | nindent 2 }}
{{ end -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ list "kube-system" .Release.Namespace | uniq | toJson }}
  {{- with .Values.webhook.namespaceSelector.matchExpressions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The pods whose rank is not their index. Rollcall puts the label on the pod template. */}}
{{- define "rollcall.rankSelector" -}}
matchExpressions:
  - key: rollcall.training/rank-offset
    operator: Exists
{{- end -}}

{{/* Who gives those pods their rank: "policy" or "webhook". See docs/adr/0011-rank-offset.md. */}}
{{- define "rollcall.rankMode" -}}
{{- if ne .Values.rankOffset.mode "auto" -}}
{{- .Values.rankOffset.mode -}}
{{- else if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
policy
{{- else -}}
webhook
{{- end -}}
{{- end -}}

{{- define "rollcall.rankName" -}}
{{- printf "%s-rank" (include "rollcall.clusterName" .) -}}
{{- end -}}

{{/* What the webhooks for workloads have in common, to be indented by 4. There is no caBundle: the manager writes it, by server-side
apply of that field alone. Helm never names the field, and so an upgrade leaves it as it is. */}}
{{- define "rollcall.webhook" -}}
admissionReviewVersions: [v1]
sideEffects: None
matchPolicy: Equivalent
# The label is the opt-in. An API server does not call Rollcall, up or down, for anything without it.
objectSelector:
  matchExpressions:
    - key: rollcall.training/framework
      operator: Exists
    - key: rollcall.training/inject
      operator: NotIn
      values: ["false"]
namespaceSelector:
  {{- include "rollcall.namespaceSelector" . | nindent 2 }}
# The garbage collector takes finalizers away by an UPDATE. Nothing may come between it and an object that is going.
matchConditions:
  - name: not-being-deleted
    expression: request.operation == 'CREATE' || !has(object.metadata.deletionTimestamp)
{{- end -}}

{{- define "rollcall.clientConfig" -}}
service:
  name: {{ include "rollcall.fullname" .root }}
  namespace: {{ .root.Release.Namespace }}
  port: 443
  path: {{ .path }}
{{- end -}}
