package gang

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// LabelYuniKornApplication is YuniKorn's label of a pod with its application (yunikorn-k8shim pkg/common/constants).
const LabelYuniKornApplication = "yunikorn.apache.org/app-id"

// yuniKornName is the only schedulerName whose pods YuniKorn places (yunikorn-k8shim pkg/common/constants).
const yuniKornName = "yunikorn"

// maxApplicationBytes limits the readable part of the name of an application, which is the value of a label.
const maxApplicationBytes = 32

// newApplicationName returns the name of the applications of a gang, without the attempt.
func newApplicationName(namespace, name string) string {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s", namespace, name)
	return fmt.Sprintf("%.*s-%08x", maxApplicationBytes, name, h.Sum32())
}

// YuniKornApplication returns the application of an attempt, for [LabelYuniKornApplication].
func YuniKornApplication(name, attempt string) string {
	return name + "-attempt-" + cmp.Or(attempt, "0")
}

// ReadYuniKornApplication returns the name of the applications of a pod template, without the attempt; empty if there
// is none.
func ReadYuniKornApplication(template *corev1.PodTemplateSpec) string {
	labels := template.Labels
	return strings.TrimSuffix(labels[LabelYuniKornApplication], YuniKornApplication("", labels[LabelAttempt]))
}

// setApplicationAttempt makes the pods of an attempt a new application, unless the user has named the application.
// YuniKorn reserves the nodes of a gang only if its application is new (yunikorn-k8shim pkg/cache,
// skipReservationStage). [LabelAttempt] is still that of the earlier attempt.
func setApplicationAttempt(template *corev1.PodTemplateSpec, attempt string) {
	name := ReadYuniKornApplication(template)
	if name != template.Labels[LabelYuniKornApplication] {
		template.Labels[LabelYuniKornApplication] = YuniKornApplication(name, attempt)
	}
}
