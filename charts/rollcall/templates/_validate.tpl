{{/* rollcall.validateValues fails if values conflict, if they have no effect, or if they contain a key of an
earlier version. */}}
{{- define "rollcall.validateValues" -}}
{{- include "rollcall.validateFormerKeys" .Values -}}
{{- include "rollcall.validateCertificates" .Values.certificates -}}
{{- include "rollcall.validateMetrics" .Values.metrics -}}
{{- include "rollcall.validateNetwork" .Values -}}
{{- include "rollcall.validateAccounts" . -}}
{{- include "rollcall.validateAdditions" . -}}
{{- include "rollcall.validateConditions" . -}}
{{- include "rollcall.validatePolicy" .Values.policy -}}
{{- include "rollcall.validateScheduling" .Values -}}
{{- end -}}

{{- define "rollcall.validateScheduling" -}}
{{- if and .namespaces .permissions.createKueueWorkloads -}}
{{- fail "permissions.createKueueWorkloads: requires permissions in all namespaces, because ResourceFlavors are in none: remove the list namespaces" -}}
{{- end -}}
{{- if and .namespaces .permissions.orderRanks -}}
{{- fail "permissions.orderRanks: requires permissions in all namespaces, because nodes are in none: remove the list namespaces" -}}
{{- end -}}
{{- if and (ne .scheduling.scheduler "none") (not .permissions.createPodGroups) -}}
{{- fail (printf "scheduling.scheduler: %s requires permissions.createPodGroups: set it to true, or the scheduler to none" .scheduling.scheduler) -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.validateFormerKeys" -}}
{{- range $key := list "replicas" "resources" -}}
{{- if hasKey $ $key -}}
{{- fail (printf "%s: the webhook and the controller are separate Deployments; set webhook.%s and controller.%s" $key $key $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.validateCertificates" -}}
{{- if and (eq .mode "secret") (not .secretName) -}}
{{- fail "certificates.secretName is required with certificates.mode secret: set it to the Secret with tls.crt and tls.key" -}}
{{- end -}}
{{- $modes := dict "secretName" (list "cert-manager" "secret") "caBundle" (list "secret") "issuerRef" (list "cert-manager") "duration" (list "self-managed" "cert-manager") "caDuration" (list "self-managed" "cert-manager") "renewBefore" (list "cert-manager") -}}
{{- range $key, $permitted := $modes -}}
{{- if and (get $ $key) (not (has $.mode $permitted)) -}}
{{- fail (printf "certificates.%s has no effect with certificates.mode %s: remove it, or set the mode to %s" $key $.mode (join " or " $permitted)) -}}
{{- end -}}
{{- end -}}
{{- if and .issuerRef .caDuration -}}
{{- fail "certificates.caDuration has no effect with certificates.issuerRef, which has an authority of its own: remove one of them" -}}
{{- end -}}
{{- $selfManaged := eq .mode "self-managed" -}}
{{- $duration := default (ternary "168h" "2160h" $selfManaged) .duration -}}
{{- $authority := default (ternary "8760h" "87600h" $selfManaged) .caDuration -}}
{{- if and (ne .mode "secret") (not .issuerRef) (lt (trimSuffix "h" $authority | int) (trimSuffix "h" $duration | int | mul 3 | int)) -}}
{{- fail (printf "certificates.duration: %s must be at most a third of certificates.caDuration (%s); change one of them" $duration $authority) -}}
{{- end -}}
{{- if and .renewBefore (ge (trimSuffix "h" .renewBefore | int) (trimSuffix "h" $duration | int)) -}}
{{- fail (printf "certificates.renewBefore: %s must be less than certificates.duration (%s); change one of them" .renewBefore $duration) -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.validateMetrics" -}}
{{- if and .secure (not .enabled) -}}
{{- fail "metrics.secure has no effect without metrics.enabled: set metrics.enabled=true, or metrics.secure=false" -}}
{{- end -}}
{{- if and .secretName (not .secure) -}}
{{- fail "metrics.secretName has no effect without metrics.secure: set metrics.secure=true, or remove the name" -}}
{{- end -}}
{{- end -}}

{{/* rollcall.validateNetwork fails if two servers have the same port, or if pods cannot find the domain of the
cluster. */}}
{{- define "rollcall.validateNetwork" -}}
{{- if and .metrics.enabled (eq (int .webhook.port) (int .metrics.port)) -}}
{{- fail (printf "metrics.port: must differ from webhook.port (%d); choose another port" (int .webhook.port)) -}}
{{- end -}}
{{- range $name, $port := dict "webhook.port" .webhook.port "metrics.port" (ternary .metrics.port 0 .metrics.enabled) -}}
{{- if eq (int $port) (int $.healthPort) -}}
{{- fail (printf "healthPort: must differ from %s (%d); choose another port" $name (int $port)) -}}
{{- end -}}
{{- if and $.webhook.hostNetwork (has (int $port) (list 10250 10255 10256)) -}}
{{- fail (printf "%s: with webhook.hostNetwork, must not be %d, which the kubelet or kube-proxy uses on every node; choose another port" $name (int $port)) -}}
{{- end -}}
{{- end -}}
{{- if and (has .dnsPolicy (list "Default" "None")) (not .clusterDomain) -}}
{{- fail (printf "clusterDomain: required with dnsPolicy %s, because the resolv.conf of the pods does not contain the domain of the cluster; set it, for example to cluster.local" .dnsPolicy) -}}
{{- end -}}
{{- if and (eq .dnsPolicy "None") (not .dnsConfig.nameservers) -}}
{{- fail "dnsConfig.nameservers: required with dnsPolicy None; set it, or choose another policy" -}}
{{- end -}}
{{- end -}}

{{/* rollcall.validateAccounts fails if an account is missing, or if both components share one: the admission
policies and the permissions differ. */}}
{{- define "rollcall.validateAccounts" -}}
{{- range $component := list "webhook" "controller" -}}
{{- $account := (get $.Values $component).serviceAccount -}}
{{- if not (or $account.create $account.name) -}}
{{- fail (printf "%s.serviceAccount.name: required with %s.serviceAccount.create=false; set it to an existing ServiceAccount" $component $component) -}}
{{- end -}}
{{- if and $account.annotations (not $account.create) -}}
{{- fail (printf "%s.serviceAccount.annotations has no effect with %s.serviceAccount.create=false: remove the annotations, or annotate the ServiceAccount" $component $component) -}}
{{- end -}}
{{- end -}}
{{- if eq (include "rollcall.webhookUser" .) (include "rollcall.controllerUser" .) -}}
{{- fail "controller.serviceAccount.name: must differ from webhook.serviceAccount.name, because the permissions differ; choose another name" -}}
{{- end -}}
{{- end -}}

{{/* rollcall.validateAdditions fails if an addition of the values replaces something of the chart. */}}
{{- define "rollcall.validateAdditions" -}}
{{- range $key := include "rollcall.ownLabels" . | fromJsonArray -}}
{{- if hasKey $.Values.commonLabels $key -}}
{{- fail (printf "commonLabels: the chart sets the label %s; remove it" $key) -}}
{{- end -}}
{{- end -}}
{{- range $component := list "webhook" "controller" -}}
{{- range (get $.Values $component).extraEnv -}}
{{- if has .name (list "POD_NAMESPACE" "POD_NAME") -}}
{{- fail (printf "%s.extraEnv: the chart sets the variable %s; remove it" $component .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := list "not-being-deleted" "stopped-by-rollcall" "not-from-controller" "changes-a-judged-field" -}}
{{- range .Values.webhook.matchConditions -}}
{{- if has .name $names -}}
{{- fail (printf "webhook.matchConditions: the name %s is in use; rename the condition" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}

{{/* rollcall.validateConditions fails if a user could escape the policy by a label or a name that excludes a labeled
workload from the webhooks. */}}
{{- define "rollcall.validateConditions" -}}
{{- if .Values.policy.enabled -}}
{{- if .Values.webhook.objectSelector -}}
{{- fail "webhook.objectSelector: with policy.enabled, users could escape the policy by a label; remove the selector, or exclude namespaces with webhook.namespaceSelector" -}}
{{- end -}}
{{- range .Values.webhook.matchConditions -}}
{{- if regexMatch "[oO]bject|request\\.name\\b" .expression -}}
{{- fail (printf "webhook.matchConditions: the condition %s reads the object, so that with policy.enabled, users could escape the policy; use only request.userInfo, request.namespace or request.operation" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rollcall.validatePolicy" -}}
{{- if and .existingConfigMap .file -}}
{{- fail "policy.existingConfigMap: the ConfigMap contains the policy, so policy.file has no effect; remove one of them" -}}
{{- end -}}
{{- if and (not .enabled) (ne .reports "none") -}}
{{- fail "policy.enabled: must be true, otherwise policy.reports has no effect; set policy.enabled=true, or policy.reports=none" -}}
{{- end -}}
{{- if and (not .enabled) (or .existingConfigMap .file) -}}
{{- fail "policy.enabled: must be true, otherwise the policy has no effect; set policy.enabled=true, or remove the policy" -}}
{{- end -}}
{{- end -}}

{{/* rollcall.validateRelease fails if another release manages one of the namespaces of this release.
Both would inject the same workloads, and the managers of both would restart the same gangs. "helm
template" has no cluster, so it finds no other release. */}}
{{- define "rollcall.validateRelease" -}}
{{- $own := include "rollcall.clusterName" . -}}
{{- $namespaces := .Values.namespaces -}}
{{- range $namespace := $namespaces -}}
{{- if has $namespace (include "rollcall.excludedNamespaces" $ | fromJsonArray) -}}
{{- fail (printf "namespaces: %s: Rollcall never manages kube-system and its own namespace; remove the namespace from the list, or install the release in another namespace" $namespace) -}}
{{- end -}}
{{- end -}}
{{- range (lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" "").items -}}
{{- $other := .metadata.name -}}
{{- range .webhooks -}}
{{- if and (eq .name "inject.rollcall.training") (ne $other $own) -}}
{{- $managed := list -}}
{{- range .namespaceSelector.matchExpressions -}}
{{- if and (eq .key "kubernetes.io/metadata.name") (eq .operator "In") -}}
{{- $managed = .values -}}
{{- end -}}
{{- end -}}
{{- $shared := $managed -}}
{{- if and $managed $namespaces -}}
{{- $shared = list -}}
{{- range $managed }}{{ if has . $namespaces }}{{ $shared = append $shared . }}{{ end }}{{ end -}}
{{- end -}}
{{- if or $shared (not $managed) (not $namespaces) -}}
{{- fail (printf "the release of MutatingWebhookConfiguration %s manages the same namespaces; uninstall it, or set disjoint lists of namespaces in both releases (value namespaces)" $other) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
