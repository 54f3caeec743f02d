package vet_test

import (
	"strings"

	"rollcall.training/internal/vet"
)

func memberCases() map[vet.Code][]checkCase {
	return map[vet.Code][]checkCase{
		"MemberConflict": {
			{
				name: "roles have different sizes",
				manifest: joinDocuments(
					mpiMemberYAML("launcher", testJob{}),
					mpiMemberYAML("worker", testJob{ranks: 3, annotations: "rollcall.training/roles: 'launcher=1,worker=3'"}),
				),
				want: []string{"metadata"},
			},
			{
				name:     "one member opted out",
				manifest: joinDocuments(mpiMemberYAML("launcher", testJob{}), optedOut(mpiMemberYAML("worker", testJob{}))),
				want:     []string{"metadata"},
			},
			{
				name: "webhook rejects one member",
				manifest: joinDocuments(
					mpiMemberYAML("launcher", testJob{}),
					mpiMemberYAML("worker", testJob{annotations: "rollcall.training/roles: 'launcher=1,worker=9'"}),
				),
				want: []string{"metadata"},
			},
			{
				name:     "consistent members",
				manifest: joinDocuments(mpiMemberYAML("launcher", testJob{}), mpiMemberYAML("worker", testJob{})),
			},
			{
				name:     "two gangs of one workload each",
				manifest: joinDocuments(testJob{name: "a"}.String(), testJob{name: "b"}.String()),
			},
		},
		"MembersMissing": {
			{name: "worker is missing", manifest: mpiMemberYAML("launcher", testJob{}), want: []string{rolesAnnotationPath}},
			{name: "launcher is missing", manifest: mpiMemberYAML("worker", testJob{}), want: []string{rolesAnnotationPath}},
			{
				name: "worker has no framework label",
				manifest: joinDocuments(
					mpiMemberYAML("launcher", testJob{}),
					strings.Replace(mpiMemberYAML("worker", testJob{}), "rollcall.training/framework: mpi, ", "", 1),
				),
				want: []string{rolesAnnotationPath},
			},
			{
				name: "worker cannot be decoded",
				manifest: joinDocuments(
					mpiMemberYAML("launcher", testJob{}),
					mpiMemberYAML("worker", testJob{container: "env: [{name: A, value: 1}]"}),
				),
				invalid: true,
			},
			{
				name:     "all members exist",
				manifest: joinDocuments(mpiMemberYAML("worker", testJob{}), mpiMemberYAML("launcher", testJob{})),
			},
			{
				name:     "rejected member is not missing",
				manifest: joinDocuments(mpiMemberYAML("launcher", testJob{}), mpiMemberYAML("worker", testJob{ranks: 9})),
			},
			{name: "gang of one workload", manifest: testJob{}.String()},
		},
		"GangNameShared": {
			{
				name: "same gang label on two gangs",
				manifest: joinDocuments(
					testJob{name: "a", labels: "rollcall.training/gang: g"}.String(),
					testJob{name: "b", labels: "rollcall.training/gang: g"}.String(),
				),
				want: []string{"metadata.labels[rollcall.training/gang]", "metadata.labels[rollcall.training/gang]"},
			},
			{
				name: "gang label equals the name of another gang",
				manifest: joinDocuments(
					testJob{name: "a"}.String(),
					testJob{name: "b", labels: "rollcall.training/gang: a"}.String(),
				),
				want: []string{"metadata.name", "metadata.labels[rollcall.training/gang]"},
			},
			{
				name: "same gang label in two namespaces",
				manifest: joinDocuments(
					testJob{name: "a", labels: "rollcall.training/gang: g"}.String(),
					strings.Replace(
						testJob{name: "b", labels: "rollcall.training/gang: g"}.String(),
						"name: b,",
						"name: b, namespace: b,",
						1,
					),
				),
			},
			{
				name:     "members of one gang",
				manifest: joinDocuments(mpiMemberYAML("launcher", testJob{}), mpiMemberYAML("worker", testJob{})),
			},
			{name: "different names", manifest: joinDocuments(testJob{name: "a"}.String(), testJob{name: "b"}.String())},
		},
		"ServiceConflict": {
			{
				name: "selector for the Job of a different name",
				manifest: joinDocuments(
					testJob{}.String(),
					serviceYAML("train", "clusterIP: None, selector: {job-name: other}"),
				),
				want: []string{"metadata.name"},
			},
			{
				name: "job-name selects no pods of a StatefulSet",
				manifest: joinDocuments(
					testJob{kind: "StatefulSet"}.String(),
					serviceYAML("train", "clusterIP: None, selector: {job-name: train}"),
				),
				want: []string{"metadata.name"},
			},
			{
				name: "selector for the label that the API server adds",
				manifest: joinDocuments(
					testJob{}.String(),
					serviceYAML("train", "clusterIP: None, selector: {job-name: train}"),
				),
			},
			{
				name: "selector for the label with a domain that the API server adds",
				manifest: joinDocuments(
					testJob{pod: "subdomain: workers"}.String(),
					serviceYAML("workers", "clusterIP: None, selector: {batch.kubernetes.io/job-name: train}"),
				),
			},
			{
				name:     "Service with a cluster IP",
				manifest: joinDocuments(testJob{}.String(), serviceYAML("train", "selector: {rollcall.training/gang: train}")),
				want:     []string{"metadata.name"},
			},
			{
				name:     "selector for other pods",
				manifest: joinDocuments(testJob{}.String(), serviceYAML("train", "clusterIP: None, selector: {app: web}")),
				want:     []string{"metadata.name"},
			},
			{
				name:     "no selector",
				manifest: joinDocuments(testJob{}.String(), serviceYAML("train", "clusterIP: None")),
				want:     []string{"metadata.name"},
			},
			{
				name: "headless Service that selects the pods",
				manifest: joinDocuments(
					testJob{template: "labels: {app: train}"}.String(),
					serviceYAML("train", "clusterIP: None, selector: {app: train}"),
				),
			},
			{
				name:     "Service with a different name",
				manifest: joinDocuments(testJob{}.String(), serviceYAML("web", "selector: {app: web}")),
			},
			{
				name: "Service in a different namespace",
				manifest: joinDocuments(
					testJob{}.String(),
					strings.Replace(serviceYAML("train", ""), "name: train", "name: train, namespace: b", 1),
				),
			},
		},
		"ServiceNotNeeded": {
			{
				name: "headless Service that selects the Job by name",
				manifest: joinDocuments(
					testJob{pod: "subdomain: workers"}.String(),
					serviceYAML("workers", "clusterIP: None, selector: {job-name: train}"),
				),
				want: []string{"metadata.name"},
			},
			{
				name: "headless Service that selects the pods by label",
				manifest: joinDocuments(
					testJob{template: "labels: {app: train}"}.String(),
					serviceYAML("train", "clusterIP: None, selector: {app: train}"),
				),
				want: []string{"metadata.name"},
			},
			{
				name: "Service that conflicts",
				manifest: joinDocuments(
					testJob{}.String(),
					serviceYAML("train", "clusterIP: None, selector: {app: web}"),
				),
			},
			{
				name: "Service with a different name",
				manifest: joinDocuments(
					testJob{}.String(),
					serviceYAML("metrics", "clusterIP: None, selector: {job-name: train}"),
				),
			},
			{
				name: "Service in the output of rollcall inject",
				manifest: joinDocuments(
					testJob{}.String(),
					strings.Replace(
						serviceYAML("train", "clusterIP: None, selector: {rollcall.training/gang: train}"),
						"{name: train}",
						"{name: train, labels: {rollcall.training/gang: train}}",
						1,
					),
				),
			},
			{name: "no Service", manifest: testJob{}.String()},
		},
	}
}
