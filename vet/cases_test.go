package vet_test

import (
	"maps"
	"strings"

	"rollcall.training/vet"
)

// sample is a text, and the fields in it that one check finds fault with.
type sample struct {
	reason   string
	text     string
	want     []string
	badInput bool // on purpose
}

func allCases() map[vet.Code][]sample {
	all := map[vet.Code][]sample{}
	maps.Copy(all, admissionCases())
	maps.Copy(all, memberCases())
	maps.Copy(all, templateCases())
	maps.Copy(all, commandCases())
	return all
}

const (
	framework = "metadata.labels[rollcall.training/framework]"
	roles     = "metadata.annotations[rollcall.training/roles]"
	container = "spec.template.spec.containers[0]"
	command   = container + ".command"
)

func several(docs ...string) string { return strings.Join(docs, "---\n") }

func admissionCases() map[vet.Code][]sample {
	return map[vet.Code][]sample{
		vet.CodeUnreadable: {
			{reason: "broken YAML", text: "a: [1\nb: 2\n", want: []string{""}, badInput: true},
			{reason: "a key twice", text: "a: 1\na: 2\n", want: []string{""}, badInput: true},
			{reason: "two of three", text: "a: [\n---\na: 1\n---\nb: [\n", want: []string{"", ""}, badInput: true},
			{reason: "what is no workload is read too", text: "a: 1\n---\n# nothing\n"},
		},
		vet.CodeUndecodable: {
			{reason: "a number that is a word", text: strings.Replace(job{}.String(), "parallelism: 2", "parallelism: two", 1), want: []string{"spec.parallelism"}, badInput: true},
			{reason: "a variable that is a number", text: job{container: "env: [{name: A, value: 1}]"}.String(), want: []string{container + ".env[0].value"}, badInput: true},
			{reason: "quantities, of which the parser does not say where they stand", text: job{resources: "limits: {memory: 8GB, nvidia.com/gpu: one}"}.String(),
				want: []string{container + ".resources.limits.memory", container + ".resources.limits[nvidia.com/gpu]"}, badInput: true},
			{reason: "a time that is none", text: strings.Replace(job{}.String(), "name: train,", "name: train, creationTimestamp: yesterday,", 1), want: []string{""}, badInput: true},
			{reason: "what is not ours need not be as our types want it", text: strings.Replace(job{framework: "none"}.String(), "parallelism: 2", "parallelism: two", 1)},
		},
		vet.CodeDuplicate: {
			{reason: "the second of one name", text: several(job{}.String(), job{}.String()), want: []string{"metadata.name"}},
			{reason: "a name in two namespaces", text: several(job{}.String(), strings.Replace(job{}.String(), "name: train,", "name: train, namespace: b,", 1))},
			{reason: "a Job and a Service", text: several(job{}.String(), service("train", "clusterIP: None, selector: {rollcall.training/gang: train}"))},
		},
		vet.CodeDenied: {
			{reason: "the webhook's own words", text: job{framework: "torch"}.String(), want: []string{framework}},
			{reason: "every mistake", text: job{framework: "torch", annotations: "rollcall.training/port: '1'"}.String(),
				want: []string{"metadata.annotations[rollcall.training/port]", framework}},
			{reason: "a variable of the gang's identity", text: job{container: "env: [{name: RANK, value: '0'}]"}.String(), want: []string{container + ".env[0].value"}},
			{reason: "the Jobs of a CronJob", text: cronJob("", "labels: {rollcall.training/framework: torch}"), want: []string{"spec.jobTemplate.metadata.labels[rollcall.training/framework]", "spec.jobTemplate.spec.template.spec.containers"}},
			{reason: "the longest name of a CronJob's pods", text: strings.Replace(cronOf(job{}), "name: nightly", "name: "+strings.Repeat("a", 54), 1), want: []string{"metadata.name"}},
			{reason: "a CronJob whose Jobs are well", text: cronOf(job{})},
			{reason: "switched off", text: job{framework: "torch", labels: "rollcall.training/inject: 'false'"}.String()},
			{reason: "not ours", text: job{framework: "none"}.String()},
		},
		vet.CodeAdmissionWarning: {
			{reason: "an annotation that is misspelt", text: job{annotations: "rollcall.training/nproc: '2'"}.String(), want: []string{"metadata.annotations[rollcall.training/nproc]"}},
			{reason: "a tunable that the user sets", text: job{container: "env: [{name: PYTHONUNBUFFERED, value: '0'}]"}.String(), want: []string{container + ".env[0]"}},
			{reason: "nothing odd", text: job{}.String()},
		},
		vet.CodeUnknownField: {
			{reason: "a field that is misspelt is dropped, and its default holds", text: job{spec: "backofLimit: 1"}.String(), want: []string{"spec.backofLimit"}},
			{reason: "a field in the wrong place", text: job{container: "restartPolicyy: Always"}.String(), want: []string{container + ".restartPolicyy"}},
			{reason: "the right spelling", text: job{spec: "backoffLimit: 1"}.String()},
			{reason: "not ours to judge", text: job{framework: "none", spec: "backofLimit: 1"}.String()},
		},
		vet.CodePodRestartPolicy: {
			{reason: "Always is the default, and a Job cannot have it", text: strings.Replace(job{}.String(), "restartPolicy: Never,", "", 1), want: []string{"spec.template.spec.restartPolicy"}},
			{reason: "Always", text: job{pod: "restartPolicy: Always"}.String(), want: []string{"spec.template.spec.restartPolicy"}},
			{reason: "a StatefulSet that ends", text: job{kind: "StatefulSet", pod: "restartPolicy: Never"}.String(), want: []string{"spec.template.spec.restartPolicy"}},
			{reason: "OnFailure", text: job{pod: "restartPolicy: OnFailure"}.String()},
			{reason: "a StatefulSet has Always by default", text: job{kind: "StatefulSet"}.String()},
		},
		vet.CodeExtendedResource: {
			{reason: "a request alone", text: job{resources: "requests: {nvidia.com/gpu: 2}"}.String(), want: []string{container + ".resources.requests[nvidia.com/gpu]"}},
			{reason: "a smaller request", text: job{resources: "requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}"}.String(), want: []string{container + ".resources.requests[nvidia.com/gpu]"}},
			{reason: "a limit alone", text: job{resources: "limits: {nvidia.com/gpu: 2}"}.String()},
			{reason: "equal", text: job{resources: "requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: '2'}"}.String()},
			{reason: "memory and CPU are shared", text: job{resources: "requests: {memory: 1Gi, cpu: 1}"}.String()},
			{reason: "the annotation sets both", text: job{annotations: "rollcall.training/gpus: '2'"}.String()},
		},
		vet.CodeLabelMisspelt: {
			{reason: "the label", text: job{framework: "none", labels: "rollcall.training/framwork: pytorch"}.String(), want: []string{"metadata.labels[rollcall.training/framwork]"}},
			{reason: "its domain", text: job{framework: "none", labels: "rolcall.training/framework: pytorch"}.String(), want: []string{"metadata.labels[rolcall.training/framework]"}},
			{reason: "the domain of an annotation", text: job{annotations: "rollcall.trainin/gpus: '1'"}.String(), want: []string{"metadata.annotations[rollcall.trainin/gpus]"}},
			{reason: "the domain without its ending", text: job{framework: "none", labels: "rollcall/framework: pytorch"}.String(), want: []string{"metadata.labels[rollcall/framework]"}},
			{reason: "of a labelled workload the webhook says it", text: job{labels: "rollcall.training/framwork: pytorch"}.String()},
			{reason: "other keys of other domains", text: job{labels: "example.com/framework: pytorch, app: a", annotations: "rollcall.example.com/gpus: '1'"}.String()},
			{reason: "another kind", text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {rollcall.training/framwork: pytorch}}\n"},
		},
		vet.CodeLabelMisplaced: {
			{reason: "on the pod template", text: job{framework: "none", template: "labels: {rollcall.training/framework: pytorch}"}.String(), want: []string{"spec.template.metadata.labels[rollcall.training/framework]"}},
			{reason: "on the pod template of a StatefulSet", text: job{kind: "StatefulSet", framework: "none", template: "labels: {rollcall.training/framework: pytorch}"}.String(), want: []string{"spec.template.metadata.labels[rollcall.training/framework]"}},
			{reason: "as an annotation", text: job{framework: "none", annotations: "rollcall.training/framework: pytorch"}.String(), want: []string{"metadata.annotations[rollcall.training/framework]"}},
			{reason: "on a CronJob", text: cronJob("labels: {rollcall.training/framework: pytorch}", ""), want: []string{framework}},
			{reason: "on the pod template of a CronJob", text: strings.Replace(cronOf(job{framework: "none"}), "template: {metadata: {", "template: {metadata: {labels: {rollcall.training/framework: pytorch}", 1), want: []string{"spec.jobTemplate.spec.template.metadata.labels[rollcall.training/framework]"}},
			{reason: "a CronJob whose Jobs have it", text: cronJob("", "labels: {rollcall.training/framework: pytorch}")},
			{reason: "where it belongs, and on the pods too, as admission puts it", text: job{template: "labels: {rollcall.training/framework: pytorch}"}.String()},
		},
		vet.CodeLabelMissing: {
			{reason: "an annotation alone", text: job{framework: "none", annotations: "rollcall.training/gpus: '1'"}.String(), want: []string{"metadata.annotations[rollcall.training/gpus]"}},
			{reason: "a label alone", text: job{framework: "none", labels: "rollcall.training/role: worker", annotations: "restart: a"}.String(), want: []string{"metadata.labels[rollcall.training/role]"}},
			{reason: "switched off", text: job{framework: "none", labels: "rollcall.training/inject: 'false'", annotations: "rollcall.training/gpus: '1'"}.String()},
			{reason: "said already", text: job{framework: "none", labels: "rollcall.training/framwork: a", annotations: "rollcall.training/gpus: '1'"}.String()},
			{reason: "a plain Job", text: job{framework: "none", annotations: "restart: a"}.String()},
			{reason: "labelled", text: job{annotations: "rollcall.training/gpus: '1'"}.String()},
		},
		vet.CodeKindUnsupported: {
			{reason: "a Deployment", text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, labels: {rollcall.training/framework: pytorch}}\n", want: []string{framework}},
			{reason: "an old version", text: strings.Replace(job{}.String(), "batch/v1", "batch/v1beta1", 1), want: []string{"apiVersion"}},
			{reason: "a Service, which the reconciler labels itself", text: strings.Replace(service("a", "clusterIP: None"), "name: a", "name: a, labels: {rollcall.training/framework: pytorch}", 1)},
			{reason: "a Deployment without", text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"},
		},
	}
}

func service(name, spec string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}

func cronJob(meta, jobs string) string {
	return "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly, " + meta + "}\nspec: {schedule: '@daily', jobTemplate: {metadata: {" + jobs + "}, spec: {}}}\n"
}

// member is a Job of a gang of mpi with a launcher and two workers.
func mpi(role string, j job) string {
	j.name, j.framework = "sim-"+role, "mpi"
	j.labels += "rollcall.training/role: " + role
	if j.ranks == 0 {
		j.ranks = map[string]int{"launcher": 1, "worker": 2}[role]
	}
	if !strings.Contains(j.annotations, "roles") {
		j.annotations = strings.TrimSuffix("rollcall.training/roles: 'launcher=1,worker=2', rollcall.training/slots: '4', "+j.annotations, ", ")
	}
	return j.String()
}

func memberCases() map[vet.Code][]sample {
	off := func(text string) string {
		return strings.Replace(text, "labels: {", "labels: {rollcall.training/inject: 'false', ", 1)
	}
	return map[vet.Code][]sample{
		vet.CodeMembersDisagree: {
			{reason: "sizes differ", text: several(mpi("launcher", job{}), mpi("worker", job{ranks: 3, annotations: "rollcall.training/roles: 'launcher=1,worker=3'"})), want: []string{"metadata"}},
			{reason: "one is switched off", text: several(mpi("launcher", job{}), off(mpi("worker", job{}))), want: []string{"metadata"}},
			{reason: "one would be refused", text: several(mpi("launcher", job{}), mpi("worker", job{annotations: "rollcall.training/roles: 'launcher=1,worker=9'"})), want: []string{"metadata"}},
			{reason: "all say the same", text: several(mpi("launcher", job{}), mpi("worker", job{}))},
			{reason: "two gangs of one workload each", text: several(job{name: "a"}.String(), job{name: "b"}.String())},
		},
		vet.CodeMembersMissing: {
			{reason: "the worker", text: mpi("launcher", job{}), want: []string{roles}},
			{reason: "the launcher", text: mpi("worker", job{}), want: []string{roles}},
			{reason: "there, and without the label", text: several(mpi("launcher", job{}), strings.Replace(mpi("worker", job{}), "rollcall.training/framework: mpi, ", "", 1)), want: []string{roles}},
			{reason: "there, and cannot be read", text: several(mpi("launcher", job{}), mpi("worker", job{container: "env: [{name: A, value: 1}]"})), badInput: true},
			{reason: "both are there", text: several(mpi("worker", job{}), mpi("launcher", job{}))},
			{reason: "one that would be refused is there all the same", text: several(mpi("launcher", job{}), mpi("worker", job{ranks: 9}))},
			{reason: "a gang of one workload", text: job{}.String()},
		},
		vet.CodeGangNameShared: {
			{reason: "each is told", text: several(job{name: "a", labels: "rollcall.training/gang: g"}.String(), job{name: "b", labels: "rollcall.training/gang: g"}.String()),
				want: []string{"metadata.labels[rollcall.training/gang]", "metadata.labels[rollcall.training/gang]"}},
			{reason: "by its own name", text: several(job{name: "a"}.String(), job{name: "b", labels: "rollcall.training/gang: a"}.String()), want: []string{"metadata.name", "metadata.labels[rollcall.training/gang]"}},
			{reason: "in two namespaces", text: several(job{name: "a", labels: "rollcall.training/gang: g"}.String(), strings.Replace(job{name: "b", labels: "rollcall.training/gang: g"}.String(), "name: b,", "name: b, namespace: b,", 1))},
			{reason: "members of one gang", text: several(mpi("launcher", job{}), mpi("worker", job{}))},
			{reason: "two names", text: several(job{name: "a"}.String(), job{name: "b"}.String())},
		},
		vet.CodeServiceConflict: {
			{reason: "with a cluster IP", text: several(job{}.String(), service("train", "selector: {rollcall.training/gang: train}")), want: []string{"metadata.name"}},
			{reason: "of other pods", text: several(job{}.String(), service("train", "clusterIP: None, selector: {app: web}")), want: []string{"metadata.name"}},
			{reason: "of no pods", text: several(job{}.String(), service("train", "clusterIP: None")), want: []string{"metadata.name"}},
			{reason: "one that can serve", text: several(job{template: "labels: {app: train}"}.String(), service("train", "clusterIP: None, selector: {app: train}"))},
			{reason: "another name", text: several(job{}.String(), service("web", "selector: {app: web}"))},
			{reason: "another namespace", text: several(job{}.String(), strings.Replace(service("train", ""), "name: train", "name: train, namespace: b", 1))},
		},
		vet.CodeClaimNotShareable: {
			{reason: "one node, two pods", text: several(job{pod: claimed}.String(), claim("ReadWriteOnce")), want: []string{"spec.template.spec.volumes[data].persistentVolumeClaim"}},
			{reason: "one pod", text: several(job{pod: claimed}.String(), claim("ReadWriteOncePod")), want: []string{"spec.template.spec.volumes[data].persistentVolumeClaim"}},
			{reason: "the pods of two workloads", text: several(mpi("launcher", job{pod: claimed}), mpi("worker", job{ranks: 1, pod: claimed, annotations: "rollcall.training/roles: 'launcher=1,worker=1'"}), claim("ReadWriteOnce")),
				want: []string{"spec.template.spec.volumes[data].persistentVolumeClaim", "spec.template.spec.volumes[data].persistentVolumeClaim"}},
			{reason: "one pod alone", text: several(job{ranks: 1, pod: claimed}.String(), claim("ReadWriteOnce"))},
			{reason: "one that many can mount", text: several(job{pod: claimed}.String(), claim("ReadWriteOnce, ReadWriteMany"))},
			{reason: "one that is only read", text: several(job{pod: claimed}.String(), claim("ReadOnlyMany"))},
			{reason: "a claim that is not in the input", text: job{pod: claimed}.String()},
		},
	}
}

const claimed = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"

func claim(modes string) string {
	return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [" + modes + "]}\n"
}

// cronOf is a CronJob that makes such Jobs.
func cronOf(j job) string {
	text := strings.Replace(j.String(), "name: train, ", "", 1)
	_, text, _ = strings.Cut(text, "kind: Job\n")
	return "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: '@daily'\n  jobTemplate:\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}
