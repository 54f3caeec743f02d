package vet_test

import (
	"fmt"
	"maps"
	"strings"

	"rollcall.training/internal/vet"
)

// checkCase is an input and the fields of the findings that one check reports for it.
type checkCase struct {
	name     string
	manifest string
	// want is nil if the check must not report a finding.
	want []string
	// invalid is true if the manifest contains errors of syntax or type on purpose.
	invalid bool
}

func allCases() map[vet.Code][]checkCase {
	all := map[vet.Code][]checkCase{}
	for _, cases := range []map[vet.Code][]checkCase{
		admissionCases(), labelCases(), memberCases(), storageCases(), networkCases(), lifecycleCases(),
		rankCases(), launcherFlagCases(), processCases(), launcherHostCases(), launcherCases(), containerCases(),
		templateCases(), policyCases(), suppressionCases(),
	} {
		maps.Copy(all, cases)
	}
	return all
}

const (
	frameworkLabelPath  = "metadata.labels[rollcall.training/framework]"
	rolesAnnotationPath = "metadata.annotations[rollcall.training/roles]"
	containerPath       = "spec.template.spec.containers[0]"
	commandPath         = containerPath + ".command"
	claimPath           = "spec.template.spec.volumes[data].persistentVolumeClaim"

	restartAnnotation = "rollcall.training/restart-policy: gang"
	elasticAnnotation = "rollcall.training/elastic: '2:4'"

	claimVolume = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"
	dataMount   = "volumeMounts: [{name: data, mountPath: /data}]"
	hostNetwork = "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet"
)

// testJob is a workload without findings and the parts that a case adds or replaces. The parts are
// fields in the flow style of YAML. The zero value is a Job of two pods for pytorch.
type testJob struct {
	// kind is Job or StatefulSet, and framework is a framework or "none" for no label.
	kind, name, framework string
	ranks                 int
	// labels and annotations are in the metadata of the workload.
	labels, annotations string
	// spec is in the spec of the workload, template in the metadata of the pod template, and pod in
	// the pod spec.
	spec, template, pod string
	// container is in the container, resources is the value of its resources.
	container, image, resources string
}

// String returns the workload as YAML.
func (j testJob) String() string {
	valueOr := func(value, defaultValue string) string {
		if value == "" {
			return defaultValue
		}
		return value
	}
	if j.ranks == 0 {
		j.ranks = 2
	}
	labels := j.labels
	if j.framework != "none" {
		labels = "rollcall.training/framework: " + valueOr(j.framework, "pytorch") + ", " + labels
	}
	// Without restarts the workload needs no volume for checkpoints.
	if !strings.Contains(j.annotations, "restart") && !strings.Contains(j.annotations, "elastic") {
		j.annotations += ", rollcall.training/restart-policy: never"
	}
	version, podField := "batch/v1", "restartPolicy: Never"
	spec := fmt.Sprintf("parallelism: %d, completions: %d", j.ranks, j.ranks)
	if j.kind == "StatefulSet" {
		version, podField = "apps/v1", "dnsPolicy: ClusterFirst"
		spec = fmt.Sprintf("replicas: %d, serviceName: %s, podManagementPolicy: Parallel", j.ranks, valueOr(j.name, "train"))
	}
	replacesPodField := strings.Contains(j.pod, "restartPolicy") ||
		strings.Contains(j.pod, "dnsPolicy") && j.kind == "StatefulSet"
	if replacesPodField {
		podField = "enableServiceLinks: false"
	}
	return fmt.Sprintf(`apiVersion: %s
kind: %s
metadata: {name: %s, labels: {%s}, annotations: {%s}}
spec: {%s, %s
  template: {metadata: {%s}, spec: {%s, %s
    containers: [{name: trainer, image: %q, resources: {%s}, %s}]}}}
`,
		version, valueOr(j.kind, "Job"), valueOr(j.name, "train"), labels, strings.TrimPrefix(j.annotations, ", "),
		spec, withTrailingComma(j.spec),
		j.template, podField, withTrailingComma(j.pod),
		valueOr(j.image, "registry.example.com/train:1"), valueOr(j.resources, "limits: {memory: 1Gi}"), j.container)
}

func withTrailingComma(s string) string {
	if s == "" {
		return ""
	}
	return s + ","
}

func joinDocuments(docs ...string) string { return strings.Join(docs, "---\n") }

func serviceYAML(name, spec string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}

// namespaceYAML returns the Namespace default with additional metadata.
func namespaceYAML(metadata string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, " + metadata + "}\n"
}

func claimYAML(modes string) string {
	return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [" + modes + "]}\n"
}

// cronJobYAML returns a CronJob with additional metadata, and with the metadata of its Jobs.
func cronJobYAML(metadata, jobMetadata string) string {
	return "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly, " + metadata + "}\n" +
		"spec: {schedule: '@daily', jobTemplate: {metadata: {" + jobMetadata + "}, spec: {}}}\n"
}

// cronJobWrapping returns a CronJob that creates the given Job.
func cronJobWrapping(j testJob) string {
	job := strings.Replace(j.String(), "name: train, ", "", 1)
	_, job, _ = strings.Cut(job, "kind: Job\n")
	return "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\n" +
		"spec:\n  schedule: '@daily'\n  jobTemplate:\n    " +
		strings.ReplaceAll(strings.TrimSpace(job), "\n", "\n    ") + "\n"
}

// mpiMemberYAML returns the Job of a role in an MPI gang with a launcher and two workers.
func mpiMemberYAML(role string, j testJob) string {
	j.name, j.framework = "sim-"+role, "mpi"
	j.labels += "rollcall.training/role: " + role
	if j.ranks == 0 {
		j.ranks = map[string]int{"launcher": 1, "worker": 2}[role]
	}
	if !strings.Contains(j.annotations, "roles") {
		defaults := "rollcall.training/roles: 'launcher=1,worker=2', rollcall.training/slots-per-worker: '4', "
		j.annotations = strings.TrimSuffix(defaults+j.annotations, ", ")
	}
	return j.String()
}

// genericLauncherYAML returns the role launcher of a generic gang, which has no special meaning.
func genericLauncherYAML(j testJob) string {
	launcher := mpiMemberYAML("launcher", j)
	return strings.NewReplacer("framework: mpi", "framework: generic", "rollcall.training/slots-per-worker: '4', ", "").
		Replace(launcher)
}

// horovodLauncherYAML returns the launcher of a Horovod gang with two workers.
func horovodLauncherYAML(container string) string {
	launcher := mpiMemberYAML("launcher", testJob{container: container})
	return strings.Replace(launcher, "framework: mpi", "framework: horovod", 1)
}

// optedOut returns the workload with the label that opts out of injection.
func optedOut(manifest string) string {
	return strings.Replace(manifest, "labels: {", "labels: {rollcall.training/inject: 'false', ", 1)
}
