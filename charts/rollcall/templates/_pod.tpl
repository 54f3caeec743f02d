{{/* The parts that the Deployments of the webhook and of the controller have in common. The argument of
most of them is a list of the root context and the name of the component: "webhook" or "controller". */}}

{{- define "rollcall.podMetadata" -}}
{{- $root := index . 0 -}}
labels:
  {{- with $root.Values.podLabels }}
  {{- omit . "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml | nindent 2 }}
  {{- end }}
  {{- include "rollcall.componentSelectorLabels" . | nindent 2 }}
annotations:
  kubectl.kubernetes.io/default-container: {{ index . 1 }}
  {{- with $root.Values.podAnnotations }}
  {{- omit . "kubectl.kubernetes.io/default-container" | toYaml | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "rollcall.podSpec" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ include (printf "rollcall.%sName" (index . 1)) $root }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
# Spreads the pods of each revision separately. Otherwise a rollout could place all new pods on one
# node.
topologySpreadConstraints:
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "rollcall.componentSelectorLabels" . | nindent 8 }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* rollcall.commonArgs are the flags of both components. Its argument is the root context. */}}
{{- define "rollcall.commonArgs" -}}
- --metrics-bind-address={{ if .Values.metrics.enabled }}:{{ .Values.metrics.port }}{{ else }}0{{ end }}
- --health-probe-bind-address=:8081
{{- with .Values.clusterDomain }}
- --cluster-domain={{ . }}
{{- end }}
- --log-level={{ .Values.logLevel }}
- --failure-output={{ .Values.failureOutput }}
{{- if .Values.policy.enabled }}
- --policy-configmap={{ include "rollcall.policyName" . }}
- --policy-ceiling={{ ternary "off" .Values.policy.ceiling (eq (toString .Values.policy.ceiling) "false") }}
{{- if include "rollcall.policyReadsNamespaces" . }}
- --policy-read-namespaces
{{- end }}
{{- end }}
{{- end -}}

{{- define "rollcall.container" -}}
{{- $root := index . 0 -}}
{{- $values := get $root.Values (index . 1) -}}
image: {{ include "rollcall.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
env:
  - name: POD_NAMESPACE
    valueFrom:
      fieldRef:
        fieldPath: metadata.namespace
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- if dig "limits" "memory" "" $values.resources }}
  # The process collects garbage more often when it approaches this limit.
  - name: GOMEMLIMIT
    valueFrom:
      resourceFieldRef:
        containerName: {{ index . 1 }}
        resource: limits.memory
  {{- end }}
# Liveness does not depend on certificates or on the API server, because a restart repairs neither.
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 10
  timeoutSeconds: 3
resources:
  {{- toYaml $values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* rollcall.commonPorts are the ports of both components. Its argument is the root context. */}}
{{- define "rollcall.commonPorts" -}}
{{- if .Values.metrics.enabled -}}
- name: metrics
  containerPort: {{ .Values.metrics.port }}
{{ end -}}
- name: health
  containerPort: 8081
{{- end -}}
