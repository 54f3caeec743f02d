package kubeflow_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/kubeflow"
	"rollcall.training/internal/migrate/source"
)

// readResult is the result of reading a manifest.
type readResult struct {
	gang     *ir.Gang
	recorder source.Recorder
	err      error
}

func readJob(t *testing.T, version, kind, spec string) *readResult {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(spec), &tree); err != nil {
		t.Fatal(err)
	}
	r := &readResult{}
	root := r.recorder.Root(map[string]any{"metadata": map[string]any{"name": "train"}, "spec": tree})
	r.gang, r.err = kubeflow.Read(source.Object{
		Group: kubeflow.Group, Version: version, Kind: kind, Root: root,
		Context: source.Context{Frameworks: injectors.Builtin().Frameworks()},
	})
	return r
}

// describeOutcomes returns the entries of a path, each as outcome, place and reason.
func (r *readResult) describeOutcomes(path string) string {
	var out []string
	for _, e := range r.recorder.Entries() {
		if e.Path == path {
			out = append(out, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", e.Outcome, e.To, e.Reason)), " "))
		}
	}
	return strings.Join(out, "; ")
}

func (r *readResult) errorText() string {
	if err := r.recorder.Errors().ToAggregate(); err != nil {
		return err.Error()
	}
	return ""
}

func TestVersions(t *testing.T) {
	versions := []string{"v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1", "v2beta1", "v2"}
	want := map[string]string{
		"PyTorchJob": "v1", "TFJob": "v1", "MPIJob": "v1 v2beta1",
		"XGBoostJob": "v1", "PaddleJob": "v1", "JAXJob": "v1",
		"MXJob": "", "Notebook": "",
	}
	for kind, supported := range want {
		var got []string
		for _, v := range versions {
			r := readJob(t, v, kind, "{}")
			if r.err == nil {
				got = append(got, v)
				continue
			}
			if !errors.Is(r.err, source.ErrUnsupported) {
				t.Errorf("Read of %s %s returned %q, want ErrUnsupported", v, kind, r.err)
			}
			if supported != "" && !strings.Contains(r.err.Error(), "the oldest supported version is v1") {
				t.Errorf("Read of %s %s returned %q, want the oldest supported version in it", v, kind, r.err)
			}
		}
		if diff := cmp.Diff(supported, strings.Join(got, " ")); diff != "" {
			t.Errorf("versions of %s (-want +got):\n%s", kind, diff)
		}
	}
}

// TestOldVersion checks the message for manifests of the operators before training-operator.
func TestOldVersion(t *testing.T) {
	tests := []struct{ version, kind, want string }{
		{version: "v1alpha1", kind: "TFJob", want: "kubeflow.org/v1alpha1 of TFJob: " + source.ErrUnsupported.Error() +
			"; the oldest supported version is v1, so convert the manifest to v1 first"},
		{version: "v1alpha2", kind: "MPIJob", want: "kubeflow.org/v1alpha2 of MPIJob: " + source.ErrUnsupported.Error() +
			"; the oldest supported version is v1, so convert the manifest to v1 or v2beta1 first"},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			r := readJob(t, tt.version, tt.kind, "{replicaSpecs: [{}]}")
			if r.err == nil || r.err.Error() != tt.want {
				t.Errorf("Read returned %v, want %s", r.err, tt.want)
			}
			if got := r.errorText(); got != "" {
				t.Errorf("Read recorded the mistakes %s, want none", got)
			}
		})
	}
}

// pytorchJobYAML returns a PyTorchJob of two workers with further fields of the spec and of the
// replica spec.
func pytorchJobYAML(fields, replica string) string {
	return fields + `
pytorchReplicaSpecs:
  Worker:
    replicas: 2
    ` + replica + `
    template: {spec: {containers: [{name: pytorch, image: one}]}}
`
}

func TestRunPolicy(t *testing.T) {
	const (
		restarts = "restartPolicy: OnFailure"
		never    = "restartPolicy: Never"
		elastic  = "elasticPolicy: {minReplicas: 1, maxReplicas: 2}\n"
	)
	tests := []struct {
		name            string
		fields, replica string
		// path is the field whose outcomes start with want, or has none if want is empty.
		path, want        string
		annotation, value string
	}{
		{
			name:   "limit applies to restarts of the gang",
			fields: "runPolicy: {backoffLimit: 2}", replica: restarts,
			path: "spec.runPolicy.backoffLimit", want: "changed annotation rollcall.training/max-restarts",
			annotation: gang.AnnotationMaxRestarts, value: "2",
		},
		{
			name:   "limit above the maximum",
			fields: "runPolicy: {backoffLimit: 5000}", replica: restarts,
			path: "spec.runPolicy.backoffLimit", want: "changed annotation rollcall.training/max-restarts",
			annotation: gang.AnnotationMaxRestarts, value: "1000",
		},
		{
			name:   "limit of a job that never restarts",
			fields: "runPolicy: {backoffLimit: 2}", replica: never,
			path: "spec.runPolicy.backoffLimit", want: "changed left out: no role restarts",
			annotation: gang.AnnotationMaxRestarts, value: "",
		},
		{
			name:   "limit of an elastic gang stays in its Job",
			fields: elastic + "backoffLimit: 2", replica: restarts,
			path: "spec.backoffLimit", want: "changed spec.backoffLimit of each Job",
			annotation: gang.AnnotationMaxRestarts, value: "",
		},
		{
			name:   "run policy takes precedence",
			fields: "runPolicy: {backoffLimit: 1}\nbackoffLimit: 2", replica: restarts,
			path: "spec.backoffLimit", want: "changed left out: the field of runPolicy takes precedence",
			annotation: gang.AnnotationMaxRestarts, value: "1",
		},
		{
			name:   "deadline restarts with the gang",
			fields: "runPolicy: {activeDeadlineSeconds: 9}", replica: restarts,
			path: "spec.runPolicy.activeDeadlineSeconds", want: "changed spec.activeDeadlineSeconds",
		},
		{
			name:   "deadline of a job that never restarts",
			fields: "runPolicy: {activeDeadlineSeconds: 9}", replica: never,
			path: "spec.runPolicy.activeDeadlineSeconds", want: "preserved spec.activeDeadlineSeconds",
		},
		{
			name:   "MultiKueue manages Jobs too",
			fields: "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}", replica: never,
			path: "spec.runPolicy.managedBy", want: "preserved spec.managedBy",
		},
		{
			name:   "operator does not manage Jobs",
			fields: "runPolicy: {managedBy: kubeflow.org/training-operator}", replica: never,
			path: "spec.runPolicy.managedBy", want: "changed left out: the controller of the former system",
		},
		{
			name:   "all pods are deleted",
			fields: "cleanPodPolicy: All", replica: never,
			path: "spec.cleanPodPolicy", want: "preserved annotation rollcall.training/clean-pod-policy",
			annotation: gang.AnnotationCleanPodPolicy, value: "all",
		},
		{
			name:   "queue without a gang scheduler",
			fields: "runPolicy: {schedulingPolicy: {queue: q}}", replica: never,
			path: "spec.runPolicy.schedulingPolicy", want: "dropped the gang scheduler of the cluster is not known",
		},
		{
			name:   "empty scheduling policy",
			fields: "runPolicy: {schedulingPolicy: {}}", replica: never,
			path: "spec.runPolicy.schedulingPolicy", want: "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := readJob(t, "v1", "PyTorchJob", pytorchJobYAML(tt.fields, tt.replica))
			got := r.describeOutcomes(tt.path)
			if r.errorText() != "" || !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("outcome of %s = %q, want %q; mistakes: %s", tt.path, got, tt.want, r.errorText())
			}
			if value := r.gang.RollcallAnnotations[tt.annotation]; tt.annotation != "" && value != tt.value {
				t.Errorf("annotation %s = %q, want %q", tt.annotation, value, tt.value)
			}
		})
	}
}

func TestElasticBounds(t *testing.T) {
	tests := []struct{ name, policy, want string }{
		{name: "both bounds", policy: "{minReplicas: 1, maxReplicas: 4}", want: "1:4"},
		{name: "only the minimum", policy: "{minReplicas: 2}", want: "2:2"},
		{name: "only the maximum", policy: "{maxReplicas: 2}", want: "2:2"},
		{name: "no bounds", policy: "{}", want: "2:2"},
		{name: "minimum above the maximum", policy: "{minReplicas: 4, maxReplicas: 1}", want: "4:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := readJob(t, "v1", "PyTorchJob", pytorchJobYAML("elasticPolicy: "+tt.policy, ""))
			if got := r.gang.RollcallAnnotations[gang.AnnotationElastic]; got != tt.want {
				t.Errorf("annotation %s = %q, want %q", gang.AnnotationElastic, got, tt.want)
			}
			if got := r.errorText(); got != "" {
				t.Errorf("mistakes = %q", got)
			}
		})
	}
}

func TestElasticRendezvous(t *testing.T) {
	tests := []struct {
		name, policy string
		env          string // NAME=value of the training container
		port         string
	}{
		{name: "empty policy", policy: "{}"},
		{name: "values equal to the defaults", policy: "{rdzvBackend: c10d, rdzvHost: train-worker-0, standalone: false}"},
		{name: "port", policy: "{rdzvPort: 29400}", port: "29400"},
		{name: "first worker with its domain", policy: "{rdzvHost: train-worker-0.team.svc, rdzvPort: 29400}", port: "29400"},
		{
			name: "host outside the gang", policy: "{rdzvHost: etcd, rdzvPort: 2379, rdzvBackend: etcd}",
			env: "PET_RDZV_BACKEND=etcd PET_RDZV_ENDPOINT=etcd:2379",
		},
		{name: "host without a port", policy: "{rdzvHost: etcd}", env: "PET_RDZV_ENDPOINT=etcd:23456"},
		{
			name: "other fields", policy: "{rdzvId: a, rdzvConf: [{key: k, value: v}, {key: l, value: w}], maxRestarts: 0}",
			env: "PET_RDZV_ID=a PET_MAX_RESTARTS=0",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := readJob(t, "v1", "PyTorchJob", pytorchJobYAML("elasticPolicy: "+tt.policy, ""))
			var env []string
			for _, e := range r.gang.Roles[0].Template.Spec.Containers[0].Env {
				env = append(env, e.Name+"="+e.Value)
			}
			if diff := cmp.Diff(tt.env, strings.Join(env, " ")); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			if got := r.gang.RollcallAnnotations[gang.AnnotationPort]; got != tt.port || r.errorText() != "" {
				t.Errorf("port = %q, want %q; mistakes: %s", got, tt.port, r.errorText())
			}
		})
	}
}

// mpiJobYAML returns an MPIJob whose launcher has the given fields.
func mpiJobYAML(fields, launcher string) string {
	return fields + `
mpiReplicaSpecs:
  Launcher: {` + launcher + `template: {spec: {containers: [{name: mpi, image: one}]}}}
  Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: one}]}}}
`
}

func TestLauncherRestarts(t *testing.T) {
	tests := []struct {
		name, version, fields, launcher string
		policy, restarts                string
	}{
		{name: "pod that never restarts", version: "v1", policy: "never"},
		{name: "pod that restarts", version: "v1", launcher: "restartPolicy: OnFailure, "},
		{name: "Job restarts its pod six times", version: "v2beta1", restarts: "6"},
		{name: "Job ignores the policy of the pod", version: "v2beta1", launcher: "restartPolicy: Never, ", restarts: "6"},
		{name: "limit of the Job", version: "v2beta1", fields: "runPolicy: {backoffLimit: 0}", restarts: "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			annotations := readJob(t, tt.version, "MPIJob", mpiJobYAML(tt.fields, tt.launcher)).gang.RollcallAnnotations
			if got := annotations[gang.AnnotationRestartPolicy]; got != tt.policy {
				t.Errorf("restart policy = %q, want %q", got, tt.policy)
			}
			if got := annotations[gang.AnnotationMaxRestarts]; got != tt.restarts {
				t.Errorf("max restarts = %q, want %q", got, tt.restarts)
			}
		})
	}
}
