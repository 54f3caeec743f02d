package gang

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ServiceMismatch returns why a Service does not publish the addresses of the ranks of an injected
// workload; empty if it does. A Service that publishes only ready pods is not a mismatch: its owner
// has chosen so, and the ranks find each other later. A Service that selects the pods of one attempt is a
// mismatch, because each restart starts another attempt.
func ServiceMismatch(s *corev1.Service, w Workload, ranks PublishedRanks) string {
	selector, podLabels := labels.SelectorFromSet(s.Spec.Selector), labels.Merge(w.Template().Labels, nil)
	delete(podLabels, LabelAttempt)
	if ranks == PublishRank0 {
		podLabels = labels.Merge(podLabels, labels.Set{w.IndexLabel(): "0"})
	}
	switch {
	case s.Spec.ClusterIP != corev1.ClusterIPNone:
		return "is not headless"
	case len(s.Spec.Selector) == 0 || !selector.Matches(podLabels):
		return "does not select the gang's pods"
	}
	return ""
}

// addressPattern matches the Service in an address of the first pod of a workload, which replaces the
// word NAME. The name of a variable or flag must announce an address: a name such as train-0.log is a
// file in most other places.
const addressPattern = `(?i:addr|address|endpoint|host|uri|url|coordinator|master|ip)["']?[=\s]\s*["']?(?:[a-z]+://)?` +
	`NAME-0\.([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)(?:[.:"'\s]|$)`

// maxScannedBytes limits the text of a workload that is searched for addresses.
const maxScannedBytes = 1 << 16

// findServiceInAddress returns the name of the Service in the first address of the workload's first pod
// in its variables and commands; empty if there is none. Without spec.subdomain, this address resolves
// only if the Service becomes the subdomain.
func findServiceInAddress(w Workload) string {
	var pattern *regexp.Regexp
	budget := maxScannedBytes
	find := func(text string) string {
		text = text[:min(len(text), budget)]
		if !strings.Contains(text, w.Meta().Name+"-0.") {
			return ""
		}
		budget -= len(text)
		if pattern == nil {
			pattern = regexp.MustCompile(strings.Replace(addressPattern, "NAME", regexp.QuoteMeta(w.Meta().Name), 1))
		}
		if match := pattern.FindStringSubmatch(text); match != nil {
			return match[1]
		}
		return ""
	}
	spec := &w.Template().Spec
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			mayHaveAddress := func(e corev1.EnvVar) bool { return strings.Contains(e.Value, "-0.") }
			if slices.ContainsFunc(c.Env, mayHaveAddress) {
				for j, value := range w.ResolveEnv(c, nil) {
					if service := find(c.Env[j].Name + "=" + value.Text); service != "" {
						return service
					}
				}
			}
			command := strings.Join(slices.Concat(c.Command, c.Args), "\n")
			if service := find(command); service != "" {
				return service
			}
		}
	}
	return ""
}
