package ir

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/migrate/source"
)

// hostnameRead matches the ways in which shells and Python read the hostname of the pod.
var hostnameRead = regexp.MustCompile(
	"[$]\\(\\s*hostname\\b[^)]*\\)|`hostname\\b|\\bhostname\\s*[|>]|[$]\\{?HOSTNAME\\b|[$]\\(HOSTNAME\\)" +
		`|/etc/hostname\b|\bgethostname\b|\buname -n\b|\bplatform\.node\b`)

// ReportHostnameReads reports that a program reads the hostname of its pod, which the migration changes.
// It looks at the containers and at further texts, such as mounted scripts.
func ReportHostnameReads(spec *corev1.PodSpec, texts []string, template source.Field, former, now string) {
	found := ""
	find := func(text string) {
		if found == "" {
			found = strings.TrimSpace(hostnameRead.FindString(text))
		}
	}
	for _, c := range ListContainers(spec) {
		VisitTexts(c, func(text *string) { find(*text) })
	}
	for _, text := range texts {
		find(text)
	}
	if found != "" {
		template.AddNote(
			fmt.Sprintf("a text reads the hostname of the pod with %q, which was %s and is %s", found, former, now),
			"check what the program does with the name; the rank is in ROLLCALL_RANK")
	}
}
