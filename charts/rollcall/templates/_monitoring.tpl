{{/* rollcall.monitoringMetadata are the labels and annotations of an object for monitoring. Its argument is a
list of the root context and the values of the object. */}}
{{- define "rollcall.monitoringMetadata" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
{{- $labels := $values.labels -}}
{{- range include "rollcall.ownLabels" $root | fromJsonArray -}}
{{- $labels = omit $labels . -}}
{{- end -}}
labels:
  {{- mergeOverwrite (include "rollcall.componentLabels" (list $root "metrics") | fromYaml) $labels | toYaml | nindent 2 }}
{{- with $values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* rollcall.metricsEndpoint is the endpoint of a ServiceMonitor or a PodMonitor. The alerts and the dashboard
select the targets by the labels job and component. */}}
{{- define "rollcall.metricsEndpoint" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
port: metrics
path: /metrics
honorLabels: true # the label namespace is that of the gang
{{- if $root.Values.metrics.secure }}
scheme: https
{{- end }}
{{- with $values.authorization }}
authorization:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.interval }}
interval: {{ . }}
{{- end }}
{{- with $values.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
relabelings:
  - targetLabel: job
    replacement: rollcall
  - sourceLabels: [__meta_kubernetes_pod_label_app_kubernetes_io_component]
    targetLabel: component
  {{- with $values.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* rollcall.certificateAlertTime is the remaining validity of a serving certificate, in seconds, below which its
renewal does not work: a seventh of the validity, and at most a day. The renewal is due when a third remains. */}}
{{- define "rollcall.certificateAlertTime" -}}
{{- $hours := default "168h" .Values.certificates.duration | trimSuffix "h" | int -}}
{{- if lt $hours 168 }}{{ div (mul $hours 3600) 7 }}{{ else }}24 * 3600{{ end -}}
{{- end -}}

{{/* rollcall.validateMonitoring rejects values for monitoring that contradict each other. */}}
{{- define "rollcall.validateMonitoring" -}}
{{- $metrics := .Values.metrics -}}
{{- if and $metrics.serviceMonitor.enabled $metrics.podMonitor.enabled -}}
{{- fail "metrics.podMonitor.enabled: must be false if metrics.serviceMonitor.enabled is true, because Prometheus would scrape each pod twice" -}}
{{- end -}}
{{- if not $metrics.enabled -}}
{{- range $name := list "serviceMonitor" "podMonitor" "prometheusRule" -}}
{{- if (get $metrics $name).enabled -}}
{{- fail (printf "metrics.%s.enabled: must be false if metrics.enabled is false" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name := list "serviceMonitor" "podMonitor" -}}
{{- $monitor := get $metrics $name -}}
{{- if and $metrics.secure $monitor.enabled -}}
{{- range $key := list "authorization" "tlsConfig" -}}
{{- if not (get $monitor $key) -}}
{{- fail (printf "metrics.%s.%s: required with metrics.secure, otherwise Prometheus reads no metrics; set it as in the section \"Secure metrics\" of the README" $name $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $known := list -}}
{{- range $group := (.Files.Get "files/alerts.yaml" | fromYaml).groups -}}
{{- range $rule := $group.rules -}}
{{- $known = append $known $rule.alert -}}
{{- end -}}
{{- end -}}
{{- range $metrics.prometheusRule.disabledAlerts -}}
{{- if not (has . $known) -}}
{{- fail (printf "metrics.prometheusRule.disabledAlerts: the alert %s does not exist; the alerts are %s" . (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
