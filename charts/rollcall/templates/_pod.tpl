{{/* The parts that the Deployments of the webhook and of the controller have in common. The argument of
most of them is a list of the root context and the name of the component: "webhook" or "controller". */}}

{{- define "rollcall.deploymentMetadata" -}}
{{- $root := index . 0 -}}
name: {{ include (printf "rollcall.%sName" (index . 1)) $root }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "rollcall.componentLabels" . | nindent 2 }}
{{- with $root.Values.deploymentAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "rollcall.deploymentSpec" -}}
{{- $root := index . 0 -}}
replicas: {{ (get $root.Values (index . 1)).replicas }}
revisionHistoryLimit: {{ $root.Values.revisionHistoryLimit }}
strategy:
  {{- if eq $root.Values.strategy.type "Recreate" }}
  type: Recreate
  {{- else }}
  {{- toYaml $root.Values.strategy | nindent 2 }}
  {{- end }}
selector:
  matchLabels:
    {{- include "rollcall.componentSelectorLabels" . | nindent 4 }}
{{- end -}}

{{/* rollcall.addedPodLabels are the labels that values add to every pod of the chart. Its argument is the root
context. */}}
{{- define "rollcall.addedPodLabels" -}}
{{- $labels := merge (dict) .Values.podLabels .Values.commonLabels -}}
{{- range include "rollcall.ownLabels" . | fromJsonArray -}}
{{- $labels = omit $labels . -}}
{{- end -}}
{{- with $labels -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* rollcall.hookPodLabels are the labels of the pod of a hook. They are not the selector labels, so that no
Service selects the pod. */}}
{{- define "rollcall.hookPodLabels" -}}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
{{- with include "rollcall.addedPodLabels" (index . 0) }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "rollcall.podMetadata" -}}
{{- $root := index . 0 -}}
labels:
  {{- with include "rollcall.addedPodLabels" $root }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- include "rollcall.componentSelectorLabels" . | nindent 2 }}
annotations:
  kubectl.kubernetes.io/default-container: {{ index . 1 }}
  {{- with $root.Values.podAnnotations }}
  {{- omit . "kubectl.kubernetes.io/default-container" | toYaml | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* rollcall.podSpec are the fields of the pods with the account of a component. rollcall.podFields are those of
every pod of the chart. */}}
{{- define "rollcall.podSpec" -}}
serviceAccountName: {{ include "rollcall.account" . | quote }}
{{ include "rollcall.podFields" . }}
{{- end -}}

{{- define "rollcall.podFields" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and (eq (index . 1) "webhook") $values.webhook.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with include "rollcall.dnsPolicy" . }}
dnsPolicy: {{ . }}
{{- end }}
{{- with $values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* rollcall.dnsPolicy is the DNS policy of the pods, empty for the default of Kubernetes. A pod in the
network of its node needs a policy of its own, otherwise its resolv.conf is that of the node, which does
not contain the domain of the cluster. */}}
{{- define "rollcall.dnsPolicy" -}}
{{- $root := index . 0 -}}
{{- $policy := $root.Values.dnsPolicy -}}
{{- if and (eq (index . 1) "webhook") $root.Values.webhook.hostNetwork (has $policy (list "" "ClusterFirst")) -}}
ClusterFirstWithHostNet
{{- else -}}
{{- $policy -}}
{{- end -}}
{{- end -}}

{{/* rollcall.spread are the constraints that distribute the pods of a Deployment. Each constraint selects the
pods of the component, unless the values contain a selector. */}}
{{- define "rollcall.spread" -}}
{{- $selector := dict "matchLabels" (include "rollcall.componentSelectorLabels" . | fromYaml) -}}
{{- with (index . 0).Values.topologySpreadConstraints -}}
topologySpreadConstraints:
  {{- range . }}
  - {{ merge (dict) (hasKey . "labelSelector" | ternary (dict) (dict "labelSelector" $selector)) . | toYaml | nindent 4 | trim }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* rollcall.volumes are the volumes of the pods of a Deployment, and rollcall.volumeMounts the mounts of
their container. */}}
{{- define "rollcall.volumes" -}}
{{- $values := (index . 0).Values -}}
{{- $volumes := list -}}
{{- if and (eq (index . 1) "webhook") (ne $values.certificates.mode "self-managed") -}}
{{- $secret := include "rollcall.certificateSecretName" (index . 0) -}}
{{- $volumes = append $volumes (dict "name" "certificate" "secret" (dict "secretName" $secret)) -}}
{{- end -}}
{{- $authorities := $values.webhook.clientCASecretName -}}
{{- if and (eq (index . 1) "webhook") $authorities -}}
{{- $volumes = append $volumes (dict "name" "client-ca" "secret" (dict "secretName" $authorities)) -}}
{{- end -}}
{{- with $values.metrics.secretName -}}
{{- $volumes = append $volumes (dict "name" "metrics-certificate" "secret" (dict "secretName" .)) -}}
{{- end -}}
{{- with concat $volumes (get $values (index . 1)).extraVolumes -}}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- define "rollcall.volumeMounts" -}}
{{- $values := (index . 0).Values -}}
{{- $mounts := list -}}
{{- if and (eq (index . 1) "webhook") (ne $values.certificates.mode "self-managed") -}}
{{- $mounts = append $mounts (dict "name" "certificate" "mountPath" "/etc/rollcall/tls" "readOnly" true) -}}
{{- end -}}
{{- if and (eq (index . 1) "webhook") $values.webhook.clientCASecretName -}}
{{- $mounts = append $mounts (dict "name" "client-ca" "mountPath" "/etc/rollcall/client-ca" "readOnly" true) -}}
{{- end -}}
{{- if $values.metrics.secretName -}}
{{- $mounts = append $mounts (dict "name" "metrics-certificate" "mountPath" "/etc/rollcall/metrics-tls" "readOnly" true) -}}
{{- end -}}
{{- with concat $mounts (get $values (index . 1)).extraVolumeMounts -}}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* rollcall.commonArgs are the flags of both components. Its argument is the root context. */}}
{{- define "rollcall.commonArgs" -}}
- --metrics-bind-address={{ if .Values.metrics.enabled }}:{{ .Values.metrics.port }}{{ else }}0{{ end }}
{{- if .Values.metrics.secure }}
- --metrics-secure
{{- end }}
{{- if .Values.metrics.secretName }}
- --metrics-certificate-dir=/etc/rollcall/metrics-tls
{{- end }}
- --health-probe-bind-address=:{{ .Values.healthPort }}
{{- with .Values.clusterDomain }}
- --cluster-domain={{ . }}
{{- end }}
- --agent-image={{ include "rollcall.image" . }}
- --agent-delivery={{ .Values.agent.delivery }}
- --log-level={{ .Values.logLevel }}
- --failure-output={{ .Values.failureOutput }}
{{- if .Values.permissions.createPodGroups }}
- --pod-groups
- --scheduler={{ .Values.scheduling.scheduler }}
- --coscheduling-name={{ .Values.scheduling.coschedulingName }}
- --volcano-name={{ .Values.scheduling.volcanoName }}
- --kai-name={{ .Values.scheduling.kaiName }}
{{- end }}
{{- if .Values.permissions.createKueueWorkloads }}
- --kueue-workloads
{{- end }}
{{- if .Values.permissions.orderRanks }}
- --rank-order
{{- end }}
{{- if .Values.permissions.readLogs }}
- --read-logs
{{- end }}
{{- if .Values.policy.enabled }}
- --policy-configmap={{ include "rollcall.policyName" . }}
- --policy-ceiling={{ ternary "off" .Values.policy.ceiling (eq (toString .Values.policy.ceiling) "false") }}
{{- if include "rollcall.policyReadsNamespaces" . }}
- --policy-read-namespaces
{{- end }}
{{- end }}
{{- end -}}

{{/* rollcall.args are the arguments of a component: those of the chart, and those of the values, which must
not repeat a flag of the chart. Its argument is a list of the root context, the name of the component, and
the arguments of the chart as YAML. */}}
{{- define "rollcall.args" -}}
{{- $component := index . 1 -}}
{{- $own := list -}}
{{- range index . 2 | fromYamlArray }}{{ $own = append $own (splitList "=" . | first) }}{{ end -}}
{{- $extra := (get (index . 0).Values $component).extraArgs -}}
{{- range $extra -}}
{{- if has (splitList "=" . | first) $own -}}
{{- fail (printf "%s.extraArgs: %s: the chart sets this flag; remove it, and change the value of the chart" $component .) -}}
{{- end -}}
{{- end -}}
args:
  {{- index . 2 | nindent 2 }}
  {{- with $extra }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "rollcall.imageFields" -}}
image: {{ include "rollcall.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* rollcall.container are the fields of a container except its name, its arguments and its ports. */}}
{{- define "rollcall.container" -}}
{{- $root := index . 0 -}}
{{- $values := get $root.Values (index . 1) -}}
{{ include "rollcall.imageFields" $root }}
env:
  - name: POD_NAMESPACE
    valueFrom:
      fieldRef:
        fieldPath: metadata.namespace
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- $replaced := false }}
  {{- range $values.extraEnv }}{{ if eq .name "GOMEMLIMIT" }}{{ $replaced = true }}{{ end }}{{ end }}
  {{- if and (dig "limits" "memory" "" $values.resources) (not $replaced) }}
  # The process collects garbage more often when it approaches this limit.
  - name: GOMEMLIMIT
    valueFrom:
      resourceFieldRef:
        containerName: {{ index . 1 }}
        resource: limits.memory
  {{- end }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
# Liveness does not depend on certificates or on the API server, because a restart repairs neither.
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  {{- toYaml $root.Values.livenessProbe | nindent 2 }}
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  {{- toYaml $root.Values.readinessProbe | nindent 2 }}
resources:
  {{- toYaml $values.resources | nindent 2 }}
{{- with include "rollcall.volumeMounts" . }}
{{ . }}
{{- end }}
{{- end -}}

{{/* rollcall.commonPorts are the ports of both components. Its argument is the root context. */}}
{{- define "rollcall.commonPorts" -}}
{{- if .Values.metrics.enabled -}}
- name: metrics
  containerPort: {{ .Values.metrics.port }}
{{ end -}}
- name: health
  containerPort: {{ .Values.healthPort }}
{{- end -}}
