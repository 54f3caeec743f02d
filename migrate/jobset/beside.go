package jobset

import (
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"rollcall.training/migrate/blueprint"

	"rollcall.training/migrate/ledger"
)

// beside makes plain Jobs of a replicated job that is no part of the gang, under the
// names that its Jobs had.
func (s *Set) beside(j *Job) {
	if j.Replicas > maxBeside {
		j.Node.Get("replicas").Invalid(fmt.Sprintf("is no part of the gang, and %d plain Jobs are too many (at most %d)", j.Replicas, maxBeside))
		return
	}
	where := "job.batch/" + j.place
	for i := range j.Replicas {
		var job *batchv1.Job
		if j.Alone {
			job = s.plain(j, j.place, 0)
		} else {
			job = s.plain(j, fmt.Sprintf("%s-%d", j.place, i), i)
		}
		if j.called || j.Alone && j.Pods > 1 {
			job.Spec.Template.Spec.Subdomain = job.Name
			s.extra(headless(job))
		}
		if i == 0 {
			where = "job.batch/" + job.Name
		}
		s.extra(job)
	}
	if j.Replicas > 1 {
		where = fmt.Sprintf("job.batch/%s-{0..%d}", j.place, j.Replicas-1)
	}
	j.account(where)
	if !j.Alone {
		j.Node.Remark(ledger.Changed, where, "it is no part of the gang: a plain Job without Rollcall's label, which neither restarts with the gang nor ends it; JobSet took it away when the set was done, and now it runs until it ends by itself", "")
	}
	if j.called && !j.Alone {
		j.Node.Remark(ledger.Changed, fmt.Sprintf("service/%s-<Job>", j.place), "some text calls its pods by name; the name stands in a Service of its own now, and the texts were rewritten", "")
	}
}

// account enters the Job template of a plain Job.
func (j *Job) account(where string) {
	n := j.Node.At("template", "spec")
	for _, name := range n.Keys() {
		if name != "suspend" {
			n.Get(name).Carried(where)
		}
	}
	n.Get("suspend").Changed("", "left out: the JobSet's own suspend overruled it", "")
	j.Node.Get("replicas").Carried("the number of plain Jobs")
}

// plain is one Job, the given one of its job.
func (s *Set) plain(j *Job, name string, index32 int32) *batchv1.Job {
	at := fmt.Sprint(index32)
	one := *j
	one.Template = *j.Template.DeepCopy()
	s.literals(&one, index{at, s.plus(j, "", index32), s.plus(j, j.groupName(), index32)})
	spec := one.Template.Spec
	spec.Suspend, spec.ManagedBy = s.Blueprint.Job.Suspend, s.Blueprint.Job.ManagedBy
	if s.Blueprint.Job.TTLSecondsAfterFinished != nil {
		spec.TTLSecondsAfterFinished = s.Blueprint.Job.TTLSecondsAfterFinished
	}
	if s.Blueprint.Job.ActiveDeadlineSeconds != nil {
		spec.ActiveDeadlineSeconds = s.Blueprint.Job.ActiveDeadlineSeconds
	}
	if spec.CompletionMode == nil { // as JobSet's webhook has it
		spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	}
	if spec.Completions == nil && *spec.CompletionMode == batchv1.IndexedCompletion {
		spec.Completions = ptr.To(j.Pods)
	}
	if spec.Template.Spec.RestartPolicy == "" {
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	annotations := maps.Clone(s.Blueprint.Annotations)
	if annotations == nil && len(one.Template.Annotations) > 0 {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, one.Template.Annotations)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Blueprint.Namespace, Labels: s.userLabels(one.Template.Labels), Annotations: annotations},
		Spec:       spec,
	}
}

// plus is the number of Jobs before one of a job's.
func (s *Set) plus(j *Job, group string, i int32) string {
	n := int(i)
	for _, o := range s.Jobs {
		if o.Name == j.Name {
			break
		}
		if group == "" || o.groupName() == group {
			n += int(o.Replicas)
		}
	}
	return fmt.Sprint(n)
}

// headless is the Service in which the pods of a plain Job have names.
func headless(job *batchv1.Job) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: job.Name, Namespace: job.Namespace},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 map[string]string{batchv1.JobNameLabel: job.Name},
		},
	}
}

func (s *Set) extra(obj runtime.Object) {
	s.Blueprint.Extras = append(s.Blueprint.Extras, func(func(string) blueprint.Place) runtime.Object { return obj })
}
