package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// change describes how to change a value so that the rendered chart differs.
type change struct {
	// to is the new value.
	to any
	// with are other values by their paths, without which the value has no effect or is rejected.
	with map[string]any
}

var (
	aSelector       = map[string]any{"matchLabels": map[string]any{"team": "research"}}
	anEnv           = []any{map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy.example.com"}}
	aVolume         = []any{map[string]any{"name": "cache", "emptyDir": map[string]any{}}}
	aMount          = []any{map[string]any{"name": "cache", "mountPath": "/cache"}}
	aRelabeling     = []any{map[string]any{"targetLabel": "cluster", "replacement": "a"}}
	anAuthorization = map[string]any{"type": "Bearer"}
	aTLSConfig      = map[string]any{"insecureSkipVerify": true}
	certManager     = map[string]any{"certificates.mode": "cert-manager"}
	ownSecret       = map[string]any{"certificates.mode": "secret", "certificates.secretName": "tls"}
	withPolicy      = map[string]any{"policy.enabled": true}
	withPodGroups   = map[string]any{"permissions.createPodGroups": true}
)

// changes are the values for which changeByType has no valid value, or no effect.
var changes = map[string]change{
	"image.digest":                      {to: "sha256:" + strings.Repeat("a", 64)},
	"image.pullPolicy":                  {to: "Always"},
	"nameOverride":                      {to: "gangs"},
	"fullnameOverride":                  {to: "gangs"},
	"imagePullSecrets":                  {to: []any{map[string]any{"name": "registry"}}},
	"extraObjects":                      {to: []any{"{apiVersion: v1, kind: ConfigMap, metadata: {name: extra}}"}},
	"tolerations":                       {to: []any{map[string]any{"operator": "Exists"}}},
	"affinity":                          {to: map[string]any{"podAntiAffinity": map[string]any{}}},
	"topologySpreadConstraints":         {to: []any{}},
	"dnsPolicy":                         {to: "ClusterFirst"},
	"dnsConfig":                         {to: map[string]any{"nameservers": []any{"192.0.2.1"}}},
	"securityContext.capabilities.drop": {to: []any{"NET_RAW"}},
	"strategy.type":                     {to: "Recreate"},
	"logLevel":                          {to: "debug"},
	"certificates.mode":                 {to: "cert-manager"},
	"certificates.secretName":           {to: "tls", with: certManager},
	"certificates.caBundle":             {to: "bundle", with: ownSecret},
	"certificates.issuerRef":            {to: map[string]any{"name": "platform"}, with: certManager},
	"certificates.duration":             {to: "24h"},
	"certificates.caDuration":           {to: "1000h"},
	"certificates.renewBefore":          {to: "24h", with: certManager},
	"webhook.failurePolicy":             {to: "Ignore"},
	"webhook.namespaceSelector":         {to: aSelector},
	"webhook.objectSelector":            {to: aSelector},
	"webhook.matchConditions":           {to: []any{map[string]any{"name": "canary", "expression": "true"}}},
	"webhook.clientCASecretName":        {to: "api-servers"},
	"webhook.extraArgs":                 {to: []any{"--cluster-domain=corp.example"}},
	"webhook.extraEnv":                  {to: anEnv},
	"webhook.extraVolumes":              {to: aVolume},
	"webhook.extraVolumeMounts":         {to: aMount},
	"webhook.serviceAccount.create":     {to: false, with: map[string]any{"webhook.serviceAccount.name": "existing"}},
	"controller.extraArgs":              {to: []any{"--cluster-domain=corp.example"}},
	"controller.extraEnv":               {to: anEnv},
	"controller.extraVolumes":           {to: aVolume},
	"controller.extraVolumeMounts":      {to: aMount},
	"controller.serviceAccount.create":  {to: false, with: map[string]any{"controller.serviceAccount.name": "existing"}},
	"rankOffset.mode":                   {to: "policy"},
	"agent.delivery":                    {to: "image"},
	"metrics.prometheusRule.runbookURL": {
		to: "https://docs.example.com/runbooks/", with: map[string]any{"metrics.prometheusRule.enabled": true},
	},
	"metrics.port":                 {to: 9090},
	"metrics.secretName":           {to: "metrics-tls", with: map[string]any{"metrics.secure": true}},
	"networkPolicy.enabled":        {to: true},
	"networkPolicy.apiServerCIDRs": {to: []any{"192.0.2.0/28"}, with: map[string]any{"networkPolicy.enabled": true}},
	"networkPolicy.egressCIDRs":    {to: []any{"192.0.2.0/28"}, with: map[string]any{"networkPolicy.enabled": true}},
	"networkPolicy.metricsFrom": {
		to:   []any{map[string]any{"podSelector": map[string]any{}}},
		with: map[string]any{"networkPolicy.enabled": true},
	},
	"metrics.serviceMonitor.interval":          {to: "30s"},
	"metrics.serviceMonitor.scrapeTimeout":     {to: "10s"},
	"metrics.serviceMonitor.relabelings":       {to: aRelabeling},
	"metrics.serviceMonitor.metricRelabelings": {to: aRelabeling},
	"metrics.serviceMonitor.authorization":     {to: anAuthorization},
	"metrics.podMonitor.authorization":         {to: anAuthorization},
	"metrics.serviceMonitor.tlsConfig":         {to: aTLSConfig},
	"metrics.podMonitor.tlsConfig":             {to: aTLSConfig},
	"metrics.podMonitor.interval":              {to: "30s"},
	"metrics.podMonitor.scrapeTimeout":         {to: "10s"},
	"metrics.podMonitor.relabelings":           {to: aRelabeling},
	"metrics.podMonitor.metricRelabelings":     {to: aRelabeling},
	"metrics.prometheusRule.disabledAlerts":    {to: []any{"RollcallWebhookDown"}},
	"policy.file":                              {to: map[string]any{"mode": "warn"}, with: withPolicy},
	"policy.existingConfigMap":                 {to: "policy", with: withPolicy},
	"policy.ceiling":                           {to: "audit", with: withPolicy},
	"policy.readNamespaces":                    {to: true, with: withPolicy},
	"policy.reports":                           {to: "openreports", with: withPolicy},
	"scheduling.scheduler":                     {to: "native", with: withPodGroups},
	"scheduling.coschedulingName":              {to: "gangs", with: withPodGroups},
	"scheduling.volcanoName":                   {to: "gangs", with: withPodGroups},
	"scheduling.kaiName":                       {to: "gangs", with: withPodGroups},
	"namespaces":                               {to: []any{"team-a"}},
}

// readValues returns the default values of the chart.
func readValues(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// findLeaves returns the values that contain no other values, by their paths. Lists and empty objects are
// leaves.
func findLeaves(prefix string, value any) map[string]any {
	inner, ok := value.(map[string]any)
	if !ok || len(inner) == 0 {
		return map[string]any{strings.TrimSuffix(prefix, "."): value}
	}
	out := map[string]any{}
	for key, value := range inner {
		maps.Copy(out, findLeaves(prefix+key+".", value))
	}
	return out
}

// changeByType returns another value of the same type.
func changeByType(t *testing.T, path string, value any) any {
	t.Helper()
	if strings.Contains(path, ".resources.") {
		return "2"
	}
	switch v := value.(type) {
	case bool:
		return !v
	case float64:
		return v + 1
	case string:
		return v + "9"
	case map[string]any:
		return map[string]any{"example.com/key": "value"}
	}
	t.Fatalf("%s: add a changed value to the table changes", path)
	return nil
}

// findMonitoringSwitch returns the value that installs the object for monitoring to which a value belongs, such
// as metrics.dashboard.enabled for metrics.dashboard.labels. It returns nothing for other values.
func findMonitoringSwitch(path string) string {
	parts := strings.Split(path, ".")
	if len(parts) < 3 || parts[0] != "metrics" || parts[2] == "enabled" {
		return ""
	}
	return "metrics." + parts[1] + ".enabled"
}

// TestEveryValueHasAnEffect changes each value of the chart. The rendered objects must differ and be valid.
func TestEveryValueHasAnEffect(t *testing.T) {
	leaves := findLeaves("", readValues(t))
	unchanged := templateValid(t, nil)
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		if _, ok := leaves[path]; !ok {
			t.Errorf("the table changes contains %s, which is not in values.yaml", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(leaves)) {
		if path == "image.repository" {
			continue // required, and a case of TestImageIsRequired
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			c, ok := changes[path]
			if !ok {
				c.to = changeByType(t, path, leaves[path])
			}
			if enabled := findMonitoringSwitch(path); enabled != "" {
				c.with = map[string]any{enabled: true}
			}
			before := unchanged
			if len(c.with) > 0 {
				before = templateValid(t, newValues(c.with))
			}
			changed := newValues(c.with)
			changed.set(path, c.to)
			after := templateValid(t, changed)
			if before == after {
				t.Errorf("%s: %v changes nothing", path, c.to)
			}
			decode(t, after)
		})
	}
}

// schema is a JSON schema.
type schema map[string]any

// readSchema returns the schema of the values.
func readSchema(t *testing.T) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out schema
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// resolve returns the schema that a reference names.
func (s schema) resolve(node map[string]any) map[string]any {
	if name, ok := node["$ref"].(string); ok {
		return s["definitions"].(map[string]any)[strings.TrimPrefix(name, "#/definitions/")].(map[string]any)
	}
	return node
}

// isOpen reports whether users choose the keys of an object: those of the Kubernetes API, and labels and
// annotations.
func isOpen(node map[string]any) bool {
	return node["$ref"] == "#/definitions/kubernetesObject" || node["$ref"] == "#/definitions/strings"
}

// TestSchemaContainsEveryValue follows the path of each value in the schema. Every object on the way must be
// closed. Objects of the Kubernetes API are open: only the API server knows their fields (ADR 0016).
func TestSchemaContainsEveryValue(t *testing.T) {
	s := readSchema(t)
	for _, path := range slices.Sorted(maps.Keys(findLeaves("", readValues(t)))) {
		node := map[string]any(s)
		for key := range strings.SplitSeq(path, ".") {
			if isOpen(node) {
				break
			}
			node = s.resolve(node)
			if node["additionalProperties"] != false {
				t.Errorf("%s: the object that contains %s is not closed in the schema", path, key)
			}
			properties, _ := node["properties"].(map[string]any)
			next, ok := properties[key].(map[string]any)
			if !ok {
				t.Errorf("%s: the schema does not contain %s", path, key)
				break
			}
			node = next
		}
	}
}

// containsOpen reports whether an object on the path is open.
func (s schema) containsOpen(path string) bool {
	node := map[string]any(s)
	for key := range strings.SplitSeq(strings.TrimSuffix(path, "."), ".") {
		properties, _ := s.resolve(node)["properties"].(map[string]any)
		if node, _ = properties[key].(map[string]any); isOpen(node) {
			return true
		}
	}
	return false
}

// TestSchemaContainsOnlyValues checks that values.yaml documents each property of the schema.
func TestSchemaContainsOnlyValues(t *testing.T) {
	// Helm passes global to charts. A template rejects the others with a message.
	undocumented := []string{"global", "replicas", "resources"}
	s := readSchema(t)
	var check func(path string, node, defaults map[string]any)
	check = func(path string, node, defaults map[string]any) {
		properties, _ := s.resolve(node)["properties"].(map[string]any)
		for key, property := range properties {
			value, ok := defaults[key]
			if !ok && !slices.Contains(undocumented, path+key) {
				t.Errorf("the schema contains %s%s, which is not in values.yaml", path, key)
			}
			if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
				check(path+key+".", property.(map[string]any), inner)
			}
		}
	}
	check("", s, readValues(t))
}

// TestSchemaRejectsUnknownKeys adds an unknown key to each object of values.yaml that is closed.
func TestSchemaRejectsUnknownKeys(t *testing.T) {
	s := readSchema(t)
	parents := map[string]bool{"": true}
	for path := range findLeaves("", readValues(t)) {
		if i := strings.LastIndex(path, "."); i > 0 {
			parents[path[:i+1]] = true
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(parents)) {
		if s.containsOpen(prefix) {
			continue
		}
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, newValues(map[string]any{prefix + "misspelled": "value"}))
			if err == nil || !strings.Contains(err.Error(), "'misspelled'") {
				t.Errorf("%smisspelled: the error is %v, want one that names the key", prefix, err)
			}
		})
	}
}
