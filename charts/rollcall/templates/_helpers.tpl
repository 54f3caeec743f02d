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
the same name in another namespace, because these objects belong to the first release. */}}
{{- define "rollcall.clusterName" -}}
{{- include "rollcall.fullname" . -}}
{{- end -}}

{{/* rollcall.webhookName and rollcall.controllerName are the names of the objects of one component: its
Deployment, Roles, PodDisruptionBudget and NetworkPolicy, and by default of its ServiceAccount. */}}
{{- define "rollcall.webhookName" -}}
{{- printf "%s-webhook" (include "rollcall.fullname" .) -}}
{{- end -}}

{{- define "rollcall.controllerName" -}}
{{- printf "%s-controller" (include "rollcall.fullname" .) -}}
{{- end -}}

{{/* rollcall.selectorLabels are the labels that select all pods of the release. */}}
{{- define "rollcall.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "rollcall.labels" -}}
{{ include "rollcall.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* rollcall.ownLabels are the keys of labels that values cannot replace, as a JSON list. */}}
{{- define "rollcall.ownLabels" -}}
{{- list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" | toJson -}}
{{- end -}}

{{/* rollcall.componentSelectorLabels are the labels that select the pods of one component. They must
never change, because the selector of a Deployment is immutable. Its argument is a list of the root
context and the name of the component, as for rollcall.componentLabels. */}}
{{- define "rollcall.componentSelectorLabels" -}}
{{ include "rollcall.selectorLabels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "rollcall.componentLabels" -}}
{{ include "rollcall.labels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "rollcall.image" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is required. Build the image with \"make image REPOSITORY=registry.example.com/rollcall/manager\", and set the values that the command prints (docs/tasks/install.md)." -}}
{{- end -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* rollcall.secretName is the Secret with the CA, which the webhook creates. rollcall.leaseName is the
Lease of the leader election, which the controller creates. */}}
{{- define "rollcall.secretName" -}}
{{- printf "%s-ca" (include "rollcall.fullname" .) -}}
{{- end -}}

{{- define "rollcall.leaseName" -}}
{{- include "rollcall.fullname" . -}}
{{- end -}}

{{/* rollcall.namespaceSelector selects the namespaces that Rollcall manages. It excludes the
workloads of the cluster and of this release, so that they can start while Rollcall is unavailable.
The values can only add conditions. */}}
{{- define "rollcall.namespaceSelector" -}}
{{- $name := "kubernetes.io/metadata.name" -}}
{{- $own := list (dict "key" $name "operator" "NotIn" "values" (include "rollcall.excludedNamespaces" . | fromJsonArray)) -}}
{{- with .Values.namespaces -}}
{{- $own = append $own (dict "key" $name "operator" "In" "values" .) -}}
{{- end -}}
{{- include "rollcall.extendSelector" (list $own .Values.webhook.namespaceSelector) -}}
{{- end -}}

{{/* rollcall.objectSelector selects the workloads that Rollcall manages. API servers never call the
webhooks for an object without the label. The values can only add conditions. */}}
{{- define "rollcall.objectSelector" -}}
{{- $framework := dict "key" "rollcall.training/framework" "operator" "Exists" -}}
{{- $inject := dict "key" "rollcall.training/inject" "operator" "NotIn" "values" (list "false") -}}
{{- include "rollcall.extendSelector" (list (list $framework $inject) .Values.webhook.objectSelector) -}}
{{- end -}}

{{/* rollcall.extendSelector is a label selector: the conditions of the chart and those of the values. Its
argument is a list of the matchExpressions of the chart and of the selector in the values. */}}
{{- define "rollcall.extendSelector" -}}
{{- $values := index . 1 -}}
{{- with $values.matchLabels -}}
matchLabels:
  {{- toYaml . | nindent 2 }}
{{ end -}}
matchExpressions:
  {{- concat (index . 0) (default list $values.matchExpressions) | toYaml | nindent 2 }}
{{- end -}}

{{/* rollcall.rankSelector selects the pods whose rank differs from their index. Rollcall sets the
label on the pod template. */}}
{{- define "rollcall.rankSelector" -}}
matchExpressions:
  - key: rollcall.training/rank-offset
    operator: Exists
{{- end -}}

{{/* rollcall.rankMode is the component that sets the rank of these pods: "policy" or "webhook"
(docs/adr/0003-roles.md). */}}
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
of 4. It contains no caBundle. The webhook writes only that field, by server-side apply. Helm does
not manage the field, so an upgrade does not change it. */}}
{{- define "rollcall.webhook" -}}
admissionReviewVersions: [v1]
sideEffects: None
matchPolicy: Equivalent
objectSelector:
  {{- include "rollcall.objectSelector" . | nindent 2 }}
namespaceSelector:
  {{- include "rollcall.namespaceSelector" . | nindent 2 }}
# The garbage collector removes finalizers with an UPDATE. A webhook must never prevent the deletion
# of an object.
matchConditions:
  - name: not-being-deleted
    expression: request.operation == 'CREATE' || !has(object.metadata.deletionTimestamp)
  {{- with .Values.webhook.matchConditions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "rollcall.clientConfig" -}}
service:
  name: {{ include "rollcall.fullname" .root }}
  namespace: {{ .root.Release.Namespace }}
  port: 443
  path: {{ .path }}
{{- with .root.Values.certificates.caBundle }}
caBundle: {{ b64enc . }}
{{- end }}
{{- end -}}

{{/* rollcall.certificateSecretName is the Secret with the serving certificate, unless the webhook manages
its certificates. */}}
{{- define "rollcall.certificateSecretName" -}}
{{- default (printf "%s-tls" (include "rollcall.fullname" .)) .Values.certificates.secretName -}}
{{- end -}}

{{/* rollcall.webhookAnnotations are the annotations of the webhook configurations. */}}
{{- define "rollcall.webhookAnnotations" -}}
{{- $annotations := .Values.webhook.annotations -}}
{{- if eq .Values.certificates.mode "cert-manager" -}}
{{- $certificate := printf "%s/%s" .Release.Namespace (include "rollcall.certificateSecretName" .) -}}
{{- $annotations = merge (dict "cert-manager.io/inject-ca-from" $certificate) $annotations -}}
{{- end -}}
{{- with $annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* rollcall.account is the name of the ServiceAccount of a component. Its argument is a list of the root
context and the name of the component. */}}
{{- define "rollcall.account" -}}
{{- $root := index . 0 -}}
{{- default (include (printf "rollcall.%sName" (index . 1)) $root) (get $root.Values (index . 1)).serviceAccount.name -}}
{{- end -}}

{{/* rollcall.webhookUser and rollcall.controllerUser are the user names of the components for API
servers. */}}
{{- define "rollcall.webhookUser" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "rollcall.account" (list . "webhook")) -}}
{{- end -}}

{{- define "rollcall.controllerUser" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "rollcall.account" (list . "controller")) -}}
{{- end -}}

{{/* rollcall.binding binds a ValidatingAdmissionPolicy of this release. Its argument is a list of the
root context and the name of the policy. */}}
{{- define "rollcall.binding" -}}
{{- $root := index . 0 -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "rollcall.labels" $root | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end -}}

{{/* rollcall.fromManager is the matchConditions of a policy that applies only to the managers, which
are the webhook and the controller. */}}
{{- define "rollcall.fromManager" -}}
- name: from-manager
  expression: request.userInfo.username in ['{{ include "rollcall.webhookUser" . }}', '{{ include "rollcall.controllerUser" . }}']
{{- end -}}

{{/* rollcall.notFromController is a condition of a webhook or a policy that does not apply to the controller. */}}
{{- define "rollcall.notFromController" -}}
name: not-from-controller
expression: request.userInfo.username != '{{ include "rollcall.controllerUser" . }}'
{{- end -}}

{{/* rollcall.recordedSize is a regular expression: the size of a StatefulSet in the record of its admission
(internal/injection/record.go). */}}
{{- define "rollcall.recordedSize" -}}
"replicas":[0-9]+
{{- end -}}

{{/* rollcall.excludedNamespaces are the namespaces in which Rollcall never acts, as a CEL list. */}}
{{- define "rollcall.excludedNamespaces" -}}
{{- list "kube-system" .Release.Namespace | uniq | toJson -}}
{{- end -}}

{{/* rollcall.ownerKinds are the kinds of workloads that own the objects of a gang, as a CEL list. */}}
{{- define "rollcall.ownerKinds" -}}
['batch/v1/Job', 'apps/v1/StatefulSet']
{{- end -}}

{{/* rollcall.changedKeys is a CEL expression: the keys whose values differ between two maps or objects.
Its argument is a list of two CEL expressions, the new value first. dyn() permits the iteration over
the fields of an object, also over those that this version of the chart does not know. */}}
{{- define "rollcall.changedKeys" -}}
{{- $new := printf "dyn(%s)" (index . 0) -}}
{{- $old := printf "dyn(%s)" (index . 1) -}}
({{ $new }}.filter(key, {{ $old }}[?key] != optional.of({{ $new }}[key])) + {{ $old }}.filter(key, !(key in {{ $new }})))
{{- end -}}

{{/* rollcall.fixedAffinity is a CEL expression: the affinity of a pod template without the nodes that it excludes by
their names, and without preferences that only name nodes to which others are preferred. A node must satisfy one of several terms, so only a single term may consist of such nodes. The argument is
the CEL expression of the workload. */}}
{{- define "rollcall.fixedAffinity" -}}
{{- $affinity := printf "%s.spec.template.spec.?affinity" . -}}
{{- $nodes := printf "%s.?nodeAffinity" $affinity -}}
[dyn({{ $affinity }}.?podAffinity.orValue({})), dyn({{ $affinity }}.?podAntiAffinity.orValue({})),
        dyn({{ $nodes }}.?preferredDuringSchedulingIgnoredDuringExecution.orValue([])
        .filter(t, size(t.preference.?matchFields.orValue([])) > 0 || t.preference.?matchExpressions.orValue([])
        .exists(e, e.key != 'kubernetes.io/hostname' || e.operator != 'NotIn'))),
        dyn({{ $nodes }}.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])
        .map(t, [dyn(t.?matchFields.orValue([])), dyn(t.?matchExpressions.orValue([])
        .filter(e, !(e.key == 'kubernetes.io/hostname' && e.operator == 'NotIn')))])
        .filter(t, size(t[0]) + size(t[1]) > 0
        || size({{ $nodes }}.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])) > 1))]
{{- end -}}

{{/* rollcall.policyName is the ConfigMap with the policy for gangs. */}}
{{- define "rollcall.policyName" -}}
{{- default (printf "%s-policy" (include "rollcall.fullname" .)) .Values.policy.existingConfigMap -}}
{{- end -}}

{{/* rollcall.policyFile is the policy file of the values, with the type of the file. */}}
{{- define "rollcall.policyFile" -}}
{{- $type := dict "apiVersion" "policy.rollcall.training/v1alpha1" "kind" "GangPolicy" -}}
{{- merge (dict) .Values.policy.file $type | toYaml -}}
{{- end -}}

{{/* rollcall.firstMode is the first mode of a list of objects with the key mode. YAML 1.1 reads off without
quotes as the boolean false. */}}
{{- define "rollcall.firstMode" -}}
{{- $mode := "" -}}
{{- range . -}}
{{- if and (not $mode) (hasKey . "mode") -}}
{{- $mode = ternary "off" .mode (eq (toString .mode) "false") -}}
{{- end -}}
{{- end -}}
{{- $mode -}}
{{- end -}}

{{/* rollcall.policyReadsNamespaces is "true" if the policy may select namespaces by their labels. */}}
{{- define "rollcall.policyReadsNamespaces" -}}
{{- $reads := .Values.policy.readNamespaces -}}
{{- range .Values.policy.file.profiles -}}
{{- $reads = or $reads (hasKey (default dict .namespaces) "selector") -}}
{{- end -}}
{{- if and .Values.policy.enabled $reads }}true{{ end -}}
{{- end -}}

{{/* rollcall.policyRules are the permissions of both components for the policy. RBAC grants list and watch
by name, because the components select by metadata.name. */}}
{{- define "rollcall.policyRules" }}
  {{- if .Values.policy.enabled }}
  # The policy for gangs, and the last valid policy.
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [{{ include "rollcall.policyName" . }}]
    verbs: [get, list, watch]
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [{{ include "rollcall.policyName" . }}-accepted]
    verbs: [get]
  {{- end }}
{{- end -}}
