package kubeflow_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/kubeflow"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// reading is what became of a manifest.
type reading struct {
	blueprint *blueprint.Blueprint
	account   ledger.Ledger
	err       error
}

func read(t *testing.T, version, kind, spec string) *reading {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(spec), &tree); err != nil {
		t.Fatal(err)
	}
	r := &reading{}
	root := r.account.Root(map[string]any{"metadata": map[string]any{"name": "train"}, "spec": tree})
	r.blueprint, r.err = kubeflow.Read(origin.Object{Group: kubeflow.Group, Version: version, Kind: kind, Root: root})
	return r
}

// of lists what is said of a path: outcome, place and reason.
func (r *reading) of(path string) string {
	var out []string
	for _, e := range r.account.Entries() {
		if e.Path == path {
			out = append(out, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", e.Outcome, e.To, e.Reason)), " "))
		}
	}
	return strings.Join(out, "; ")
}

func (r *reading) mistakes() string {
	if err := r.account.Mistakes().ToAggregate(); err != nil {
		return err.Error()
	}
	return ""
}

func TestVersions(t *testing.T) {
	versions := []string{"v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1", "v2beta1", "v2"}
	want := map[string]string{
		"PyTorchJob": "v1alpha1 v1alpha2 v1beta1 v1beta2 v1",
		"TFJob":      "v1alpha1 v1alpha2 v1beta1 v1beta2 v1",
		"MPIJob":     "v1alpha1 v1alpha2 v1 v2beta1",
		"XGBoostJob": "v1", "PaddleJob": "v1", "JAXJob": "v1",
		"MXJob": "", "Notebook": "",
	}
	for kind, known := range want {
		var got []string
		for _, v := range versions {
			if r := read(t, v, kind, "{}"); r.err == nil {
				got = append(got, v)
			} else if kind != "MXJob" && !errors.Is(r.err, origin.ErrUnknown) {
				t.Errorf("%s of %s: %v", v, kind, r.err)
			}
		}
		if diff := cmp.Diff(known, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", kind, diff)
		}
		if kubeflow.Knows(kind) == (kind == "Notebook") {
			t.Errorf("knows %s: %v", kind, kubeflow.Knows(kind))
		}
	}
}

// workers is a PyTorchJob of two workers with further fields.
func workers(fields, replica string) string {
	return fields + `
pytorchReplicaSpecs:
  Worker:
    replicas: 2
    ` + replica + `
    template: {spec: {containers: [{name: pytorch, image: one}]}}
`
}

func TestRunPolicy(t *testing.T) {
	const restarts, never, elastic = "restartPolicy: OnFailure", "restartPolicy: Never", "elasticPolicy: {minReplicas: 1, maxReplicas: 2}\n"
	tests := []struct {
		reason, fields, replica, path string
		want                          string
		annotation, value             string
	}{
		{"restarts of the gang", "runPolicy: {backoffLimit: 2}", restarts, "spec.runPolicy.backoffLimit", "changed annotation rollcall.training/max-restarts", gang.AnnotationMaxRestarts, "2"},
		{"more than there can be", "runPolicy: {backoffLimit: 5000}", restarts, "spec.runPolicy.backoffLimit", "changed annotation rollcall.training/max-restarts", gang.AnnotationMaxRestarts, "1000"},
		{"none restarts", "runPolicy: {backoffLimit: 2}", never, "spec.runPolicy.backoffLimit", "changed left out: no part of the job restarts", gang.AnnotationMaxRestarts, ""},
		{"an elastic gang is left to its Job", elastic + "backoffLimit: 2", restarts, "spec.backoffLimit", "changed spec.backoffLimit of each Job", gang.AnnotationMaxRestarts, ""},
		{"the run policy counts", "runPolicy: {backoffLimit: 1}\nbackoffLimit: 2", restarts, "spec.backoffLimit", "changed left out: runPolicy has it too", gang.AnnotationMaxRestarts, "1"},
		{"a deadline begins anew with the gang", "runPolicy: {activeDeadlineSeconds: 9}", restarts, "spec.runPolicy.activeDeadlineSeconds", "changed spec.activeDeadlineSeconds", "", ""},
		{"and is what it was where it never does", "runPolicy: {activeDeadlineSeconds: 9}", never, "spec.runPolicy.activeDeadlineSeconds", "carried spec.activeDeadlineSeconds", "", ""},
		{"MultiKueue runs Jobs too", "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}", never, "spec.runPolicy.managedBy", "carried spec.managedBy", "", ""},
		{"the operator runs none", "runPolicy: {managedBy: kubeflow.org/training-operator}", never, "spec.runPolicy.managedBy", "changed left out: it names the operator", "", ""},
		{"all pods", "cleanPodPolicy: All", never, "spec.cleanPodPolicy", "carried annotation rollcall.training/clean-pod-policy", gang.AnnotationCleanPods, "all"},
		{"no word of who schedules", "runPolicy: {schedulingPolicy: {queue: q}}", never, "spec.runPolicy.schedulingPolicy", "lost no gang scheduler is named", "", ""},
		{"nothing asked of whoever schedules", "runPolicy: {schedulingPolicy: {}}", never, "spec.runPolicy.schedulingPolicy", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			r := read(t, "v1", "PyTorchJob", workers(tt.fields, tt.replica))
			if got := r.of(tt.path); r.mistakes() != "" || !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("of %s: %q, want %q; mistakes: %s", tt.path, got, tt.want, r.mistakes())
			}
			if tt.annotation != "" && r.blueprint.Keys[tt.annotation] != tt.value {
				t.Errorf("%s: %q, want %q", tt.annotation, r.blueprint.Keys[tt.annotation], tt.value)
			}
		})
	}
}

func TestElasticBounds(t *testing.T) {
	tests := []struct{ reason, policy, want, mistake string }{
		{"both", "{minReplicas: 1, maxReplicas: 4}", "1:4", ""},
		{"the other where one is missing, as the operator has it", "{minReplicas: 2}", "2:2", ""},
		{"the largest alone", "{maxReplicas: 2}", "2:2", ""},
		{"the number of workers where both are", "{}", "2:2", ""},
		{"the wrong way round", "{minReplicas: 4, maxReplicas: 1}", "4:1", "spec.elasticPolicy.minReplicas: Invalid value: 4: the smallest number"},
		{"none at all", "{minReplicas: 0, maxReplicas: 4}", "0:4", "spec.elasticPolicy.minReplicas: Invalid value: 0: the smallest number"},
		{"more workers than there may be", "{minReplicas: 1, maxReplicas: 1}", "1:1", "there are 2 workers, which is not from 1 to 1"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			r := read(t, "v1", "PyTorchJob", workers("elasticPolicy: "+tt.policy, ""))
			if got := r.blueprint.Keys[gang.AnnotationElastic]; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if got := r.mistakes(); (tt.mistake == "") != (got == "") || !strings.Contains(got, tt.mistake) {
				t.Errorf("mistakes: %q, want %q", got, tt.mistake)
			}
		})
	}
}

func TestRendezvous(t *testing.T) {
	tests := []struct {
		reason, policy string
		env            string // NAME=value of the container that trains
		port           string
	}{
		{"nothing is named", "{}", "", ""},
		{"what holds anyway", "{rdzvBackend: c10d, rdzvHost: train-worker-0, standalone: false}", "", ""},
		{"a port of its own", "{rdzvPort: 29400}", "", "29400"},
		{"the first worker in its domain", "{rdzvHost: train-worker-0.team.svc, rdzvPort: 29400}", "", "29400"},
		{"another host is an endpoint", "{rdzvHost: etcd, rdzvPort: 2379, rdzvBackend: etcd}", "PET_RDZV_BACKEND=etcd PET_RDZV_ENDPOINT=etcd:2379", ""},
		{"with the port of the gang where it has none", "{rdzvHost: etcd}", "PET_RDZV_ENDPOINT=etcd:23456", ""},
		{"the rest", "{rdzvId: a, rdzvConf: [{key: k, value: v}, {key: l, value: w}], maxRestarts: 0}",
			"PET_RDZV_ID=a PET_RDZV_CONF=k=v,l=w PET_MAX_RESTARTS=0", ""},
		{"a number that torchrun can read", "{standalone: true}", "PET_STANDALONE=1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			r := read(t, "v1", "PyTorchJob", workers("elasticPolicy: "+tt.policy, ""))
			var env []string
			for _, e := range r.blueprint.Roles[0].Template.Spec.Containers[0].Env {
				env = append(env, e.Name+"="+e.Value)
			}
			if diff := cmp.Diff(tt.env, strings.Join(env, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := r.blueprint.Keys[gang.AnnotationPort]; got != tt.port || r.mistakes() != "" {
				t.Errorf("port %q, want %q; mistakes: %s", got, tt.port, r.mistakes())
			}
		})
	}
}

// mpi is an MPIJob whose launcher has the given policies.
func mpi(fields, launcher string) string {
	return fields + `
mpiReplicaSpecs:
  Launcher: {` + launcher + `template: {spec: {containers: [{name: mpi, image: one}]}}}
  Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: one}]}}}
`
}

func TestLaunchersRestart(t *testing.T) {
	tests := []struct {
		reason, version, fields, launcher string
		policy, restarts                  string
	}{
		{"a pod that never restarts", "v1", "", "", "never", ""},
		{"a pod that does", "v1", "", "restartPolicy: OnFailure, ", "", ""},
		{"a Job starts its pod anew six times", "v2beta1", "", "", "", "6"},
		{"whatever the policy of the pod", "v2beta1", "", "restartPolicy: Never, ", "", "6"},
		{"as often as it says", "v2beta1", "runPolicy: {backoffLimit: 0}", "", "", "0"},
		{"the older one was a Job too", "v1alpha2", "backoffLimit: 2", "", "", "2"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			keys := read(t, tt.version, "MPIJob", mpi(tt.fields, tt.launcher)).blueprint.Keys
			if got := [2]string{keys[gang.AnnotationRestartPolicy], keys[gang.AnnotationMaxRestarts]}; got != [2]string{tt.policy, tt.restarts} {
				t.Errorf("restart policy and restarts %q, want %q and %q", got, tt.policy, tt.restarts)
			}
		})
	}
}

// TestProcessingUnits shares units out as mpi-operator did at v1alpha1.
func TestProcessingUnits(t *testing.T) {
	tests := []struct {
		reason, fields string
		workers        int32
		slots, limits  string
		mistake        string
	}{
		{"as many as fit", "{gpus: 16, gpusPerNode: 8, ", 2, "8", "nvidia.com/gpu=8", ""},
		{"fewer than one has", "{gpus: 2, gpusPerNode: 8, ", 1, "2", "nvidia.com/gpu=2", ""},
		{"cores", "{processingUnits: 4, processingUnitsPerNode: 2, processingResourceType: cpu, ", 2, "2", "cpu=2", ""},
		{"slots of one's own", "{gpus: 16, gpusPerNode: 8, slotsPerWorker: 1, ", 2, "1", "nvidia.com/gpu=8", ""},
		{"replicas", "{replicas: 3, ", 3, "1", "", ""},
		{"no workers", "{", 0, "1", "", ""},
		{"no multiple", "{gpus: 9, gpusPerNode: 8, ", 0, "", "", "must be a multiple of the units of one worker, 8"},
		{"a flag that is not known", "{gpus: 9, ", 0, "", "", "spec.gpusPerNode: Required value"},
		{"both", "{gpus: 8, gpusPerNode: 8, processingUnits: 8, ", 0, "", "", "must not be used with gpus"},
		{"none", "{gpus: 0, gpusPerNode: 8, ", 0, "", "", "spec.gpus: Invalid value: 0"},
		{"a unit of another kind", "{replicas: 1, processingResourceType: disk, ", 0, "", "", "must be nvidia.com/gpu or cpu"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			r := read(t, "v1alpha1", "MPIJob", tt.fields+"template: {spec: {containers: [{name: mpi, image: one, command: [mpirun]}]}}}")
			if got := r.mistakes(); (tt.mistake == "") != (got == "") || !strings.Contains(got, tt.mistake) {
				t.Fatalf("mistakes: %q, want %q", got, tt.mistake)
			}
			if tt.mistake != "" {
				return
			}
			var got int32
			limits := ""
			for _, role := range r.blueprint.Roles {
				c := role.Template.Spec.Containers[0]
				if role.Name == "worker" {
					got = role.Pods
					for name, q := range c.Resources.Limits {
						limits = string(name) + "=" + q.String()
					}
				} else if len(c.Resources.Limits) > 0 {
					t.Errorf("the launcher has limits: %v", c.Resources.Limits)
				}
			}
			if slots := r.blueprint.Keys[gang.AnnotationSlots]; got != tt.workers || slots != tt.slots || limits != tt.limits {
				t.Errorf("%d workers of %s slots with %q, want %d of %s with %q", got, slots, limits, tt.workers, tt.slots, tt.limits)
			}
		})
	}
}
