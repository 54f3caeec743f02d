package check

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Labels of the objects of the chart.
const (
	labelChart      = "helm.sh/chart"
	labelInstance   = "app.kubernetes.io/instance"
	labelComponent  = "app.kubernetes.io/component"
	labelAppVersion = "app.kubernetes.io/version"
)

// judgeReadiness judges whether the pods of a component run.
func (c Component) judgeReadiness(code Code) Result {
	d := c.Deployment.Value
	switch {
	case c.Deployment.Err != nil:
		return c.Deployment.explainUnknown(code, "the Deployment of the "+c.Name)
	case d == nil:
		return newProblem(code, Error, "the Deployment of the "+c.Name+" does not exist",
			"restore it: helm upgrade --reuse-values")
	}
	scale := fmt.Sprintf("kubectl --namespace %s scale deployment %s --replicas=2", d.Namespace, d.Name)
	describe := fmt.Sprintf("find the reason: kubectl --namespace %s describe pods --selector %s",
		d.Namespace, formatSelector(d.Spec.Selector.MatchLabels))
	ready, want := d.Status.ReadyReplicas, c.replicas()
	summary := fmt.Sprintf("%d of %d pods of the Deployment %s are ready", ready, want, d.Name)
	switch {
	case want == 0:
		return newProblem(code, Error, "the Deployment "+d.Name+" is scaled to 0", scale)
	case ready == 0:
		return newProblem(code, Error, summary+c.explainPods(), describe)
	case ready < want:
		return newProblem(code, Warning, summary+c.explainPods(), describe)
	case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < want:
		return newProblem(code, Warning, fmt.Sprintf("the rollout of the Deployment %s is not complete", d.Name),
			fmt.Sprintf("wait: kubectl --namespace %s rollout status deployment %s", d.Namespace, d.Name))
	}
	return newOK(code, "%s", summary)
}

// explainPods returns a reason why a pod is not ready, with a leading colon. It is empty if no reason is
// known.
func (c Component) explainPods() string {
	for _, pod := range c.Pods.Value {
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
				return ": " + s.State.Waiting.Reason
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return ": " + condition.Reason
			}
		}
	}
	return ""
}

// formatSelector returns labels in the form of kubectl.
func formatSelector(labels map[string]string) string {
	var out []string
	for key, value := range labels {
		out = append(out, key+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// judgeVersions judges whether both components, the chart and the command have one version.
func (f Facts) judgeVersions() []Result {
	i := f.Installation
	webhook, controller := i.Webhook.Deployment.Value, i.Controller.Deployment.Value
	if webhook == nil || controller == nil {
		return []Result{newProblem(CodeVersions, Unknown, "the versions: a Deployment is not known", "")}
	}
	var problems []Result
	if a, b := i.Webhook.image(), i.Controller.image(); a != b {
		problems = append(problems, newProblem(CodeVersions, Error,
			fmt.Sprintf("the webhook runs the image %s, but the controller %s", a, b), i.upgradeCommand()))
	}
	if a, b := webhook.Labels[labelChart], controller.Labels[labelChart]; a != b {
		problems = append(problems, newProblem(CodeVersions, Warning,
			fmt.Sprintf("the webhook is of the chart %s, but the controller of %s", a, b), i.upgradeCommand()))
	}
	for _, c := range []Component{i.Webhook, i.Controller} {
		if old := c.countOldPods(); old > 0 {
			problems = append(problems, newProblem(CodeVersions, Warning,
				fmt.Sprintf("pods of the %s with an image of another version: %d", c.Name, old),
				fmt.Sprintf("wait: kubectl --namespace %s rollout status deployment %s", i.Namespace, c.Deployment.Value.Name)))
		}
	}
	if problem, ok := f.judgeCommandVersion(webhook.Labels[labelAppVersion]); ok {
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		return problems
	}
	return []Result{newOK(CodeVersions, "the webhook, the controller and the command are of the chart %s",
		webhook.Labels[labelChart])}
}

// judgeCommandVersion compares the version of the command with that of the chart. It returns false if they
// match.
func (f Facts) judgeCommandVersion(chart string) (Result, bool) {
	command, err := version.ParseSemantic(f.CommandVersion)
	if err != nil || command.PreRelease() != "" {
		return newProblem(CodeVersions, Unknown, fmt.Sprintf(
			"the command has the version %s of a development build, which cannot be compared with the chart %s",
			f.CommandVersion, chart), "use the command of a release"), true
	}
	installed, err := version.ParseSemantic(chart)
	if err != nil {
		return newProblem(CodeVersions, Unknown, fmt.Sprintf("the chart has no version: %v", err), ""), true
	}
	if command.Major() != installed.Major() || command.Minor() != installed.Minor() {
		return newProblem(CodeVersions, Warning,
			fmt.Sprintf("the command has the version %s, but the chart %s", f.CommandVersion, chart),
			"use the command of the same minor release"), true
	}
	return Result{}, false
}

// image returns the image of a component. It is empty if there is none.
func (c Component) image() string {
	if container := c.findContainer(); container != nil {
		return container.Image
	}
	return ""
}

// countOldPods returns the number of the pods that do not have the image of the Deployment.
func (c Component) countOldPods() int {
	n := 0
	for _, pod := range c.Pods.Value {
		for _, container := range pod.Spec.Containers {
			if container.Name == c.Name && container.Image != c.image() {
				n++
			}
		}
	}
	return n
}

// judgeAvailability judges the number of pods of the webhook together with the failure policy. Another check
// reports a Deployment and a configuration that do not exist, and a Deployment without pods.
func (i *Installation) judgeAvailability() []Result {
	replicas := i.Webhook.replicas()
	if i.Webhook.Deployment.Value == nil || i.Mutating.Value == nil || replicas == 0 {
		return nil
	}
	policy := admissionv1.Fail
	for _, w := range i.Mutating.Value.Webhooks {
		if w.Name == injectWebhook {
			policy = ptr.Deref(w.FailurePolicy, admissionv1.Fail)
		}
	}
	consequence := "API servers reject labeled workloads"
	if policy == admissionv1.Ignore {
		consequence = "API servers create labeled workloads without injection"
	}
	if replicas < 2 {
		return []Result{newProblem(CodeAvailability, Warning, fmt.Sprintf(
			"the webhook has %s, so %s while a node is drained or lost", gang.FormatCount(replicas, "pod"), consequence),
			"set the value webhook.replicas to 2 or more")}
	}
	return []Result{newOK(CodeAvailability, "the webhook has %d pods; while none is ready, %s (failurePolicy %s)",
		replicas, consequence, policy)}
}
