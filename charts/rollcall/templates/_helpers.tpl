{{/* rollcall.fullname is the name of all objects. It has at most 50 of the permitted 63 characters,
because some names have a suffix. */}}
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

{{/* rollcall.clusterName is the name of cluster-scoped objects. Helm rejects a second release with
the same name in another namespace, because these objects belong to the first release. Two releases
would inject the same workloads. */}}
{{- define "rollcall.clusterName" -}}
{{- include "rollcall.fullname" . -}}
{{- end -}}

{{/* rollcall.selectorLabels are the labels that select the pods. They must never change, because
the selector of a Deployment is immutable. */}}
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

{{/* rollcall.secretName is the Secret with the CA, rollcall.leaseName the Lease of the leader
election. The manager creates both. */}}
{{- define "rollcall.secretName" -}}
{{- printf "%s-ca" (include "rollcall.fullname" .) -}}
{{- end -}}

{{- define "rollcall.leaseName" -}}
rollcall
{{- end -}}

{{/* rollcall.namespaceSelector selects the namespaces that Rollcall manages. It excludes the
workloads of the cluster and of this release, so that they can start while Rollcall is unavailable.
The values can only add conditions. */}}
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

{{/* rollcall.rankSelector selects the pods whose rank differs from their index. Rollcall sets the
label on the pod template. */}}
{{- define "rollcall.rankSelector" -}}
matchExpressions:
  - key: rollcall.training/rank-offset
    operator: Exists
{{- end -}}

{{/* rollcall.rankMode is the component that sets the rank of these pods: "policy" or "webhook"
(docs/adr/0011-rank-offset.md). */}}
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

{{/* rollcall.webhook contains the common fields of the webhooks for workloads, for an indentation
of 4. It contains no caBundle. The manager writes only that field, by server-side apply. Helm does
not manage the field, so an upgrade does not change it. */}}
{{- define "rollcall.webhook" -}}
admissionReviewVersions: [v1]
sideEffects: None
matchPolicy: Equivalent
# The label enables Rollcall. API servers never call Rollcall for an object without the label.
objectSelector:
  matchExpressions:
    - key: rollcall.training/framework
      operator: Exists
    - key: rollcall.training/inject
      operator: NotIn
      values: ["false"]
namespaceSelector:
  {{- include "rollcall.namespaceSelector" . | nindent 2 }}
# The garbage collector removes finalizers with an UPDATE. A webhook must never prevent the deletion
# of an object.
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
