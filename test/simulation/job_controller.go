package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// jobController is a stand-in for the Job controller (kubernetes pkg/controller/job, 1.37). It has caches of
// its own, expectations, and the same order of writes: pods first, then the status, then the finalizers of
// the counted pods. Only Indexed Jobs are supported, and a podFailurePolicy only with the rule of isIgnored.
type jobController struct {
	w     *world
	api   *api
	jobs  *watch
	pods  *watch
	syncs map[types.UID]*jobWorker
}

// jobWorker is what the Job controller keeps about one Job.
type jobWorker struct {
	busy, dirty bool
	scheduled   time.Time
	failures    int
	// jobVersion and podVersion are the last versions that the controller wrote. It does not sync the Job before
	// its caches contain them (KEP-5647).
	jobVersion, podVersion int64
	// creations is the number of created pods that the cache does not contain yet.
	creations int
	// deletions and removals are pods whose deletion, or whose removed finalizer, the cache does not show yet.
	deletions, removals sets.Set[types.UID]
	backoff             jobBackoff
}

// podBatchPeriod is how long the Job controller collects events of pods and changes of the status
// (SyncJobBatchPeriod).
const podBatchPeriod = time.Second

func newJobController(a *api) *jobController {
	c := &jobController{w: a.w, api: a, syncs: map[types.UID]*jobWorker{}}
	c.startWatches()
	return c
}

// startWatches fills the caches with what exists now.
func (c *jobController) startWatches() {
	c.jobs = c.api.watch(jobKind, "job-controller/jobs", nil, func(before, after client.Object) {
		switch {
		case after == nil:
			c.releaseOrphans(before.GetUID())
		case before != nil && before.GetGeneration() == after.GetGeneration():
			c.enqueue(after.GetUID(), podBatchPeriod)
		default:
			c.enqueue(after.GetUID(), 0)
		}
	})
	c.pods = c.api.watch(podKind, "job-controller/pods", nil, c.observePod)
}

func (c *jobController) worker(uid types.UID) *jobWorker {
	if c.syncs[uid] == nil {
		c.syncs[uid] = &jobWorker{deletions: sets.Set[types.UID]{}, removals: sets.Set[types.UID]{}}
	}
	return c.syncs[uid]
}

// observePod updates the expectations and schedules a sync of the Job.
func (c *jobController) observePod(before, after client.Object) {
	o := after
	if o == nil {
		o = before
	}
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != string(jobKind) {
		return
	}
	worker := c.worker(owner.UID)
	if before == nil {
		worker.creations = max(0, worker.creations-1)
	}
	if after == nil || after.GetDeletionTimestamp() != nil {
		worker.deletions.Delete(o.GetUID())
	}
	if after == nil || !isTracked(after) {
		worker.removals.Delete(o.GetUID())
	}
	if c.findJob(owner.UID) == nil {
		c.releaseOrphans(owner.UID)
		return
	}
	c.enqueue(owner.UID, podBatchPeriod)
}

func isTracked(o client.Object) bool {
	return slices.Contains(o.GetFinalizers(), batchv1.JobTrackingFinalizer)
}

func (c *jobController) findJob(uid types.UID) *batchv1.Job {
	for _, o := range c.jobs.objects {
		if o.GetUID() == uid {
			return o.(*batchv1.Job)
		}
	}
	return nil
}

// enqueue schedules a sync.
func (c *jobController) enqueue(uid types.UID, delay time.Duration) {
	worker := c.worker(uid)
	due := c.w.now.Add(delay + c.w.delay("job-controller/sync"))
	if !worker.scheduled.IsZero() && !worker.scheduled.After(due) && worker.scheduled.After(c.w.now) {
		return
	}
	worker.scheduled = due
	c.w.at(due, func() { c.sync(uid) })
}

// releaseOrphans removes the finalizers of the pods of a deleted Job.
func (c *jobController) releaseOrphans(owner types.UID) {
	for _, pod := range c.pods.podsOf(owner) {
		if isTracked(pod) {
			c.w.after("job-controller/requests", func() {
				if err := c.removeFinalizer(pod); client.IgnoreNotFound(err) != nil {
					c.w.at(c.w.now.Add(time.Second), func() { c.releaseOrphans(owner) })
				}
			})
		}
	}
}

// removeFinalizer lets a counted pod be deleted.
func (c *jobController) removeFinalizer(pod *corev1.Pod) error {
	if err := c.w.fault("job-controller"); err != nil {
		return err
	}
	o, err := c.api.get(podKind, pod.Name)
	if err != nil || o.GetUID() != pod.UID {
		return apierrors.NewNotFound(resources[podKind], pod.Name)
	}
	removeFinalizer(o, batchv1.JobTrackingFinalizer)
	if _, err = c.api.update(o, ""); err == nil {
		if owner := metav1.GetControllerOf(pod); owner != nil {
			c.worker(owner.UID).podVersion = c.api.versions[podKind]
		}
	}
	return err
}

// sync decides over the objects in the caches and then makes its requests one after the other.
func (c *jobController) sync(uid types.UID) {
	worker := c.worker(uid)
	if worker.busy {
		worker.dirty = true
		return
	}
	job := c.findJob(uid)
	if job == nil || isJobFinished(job) {
		return
	}
	if c.jobs.version < worker.jobVersion || c.pods.version < worker.podVersion {
		c.repeat(worker, uid)
		return
	}
	worker.busy, worker.dirty = true, false
	s := newJobSync(c, worker, clone(job), c.pods.podsOf(uid))
	s.decide()
	c.runSteps(s, s.steps)
}

// restart forgets everything, also the requests of syncs that run, and fills new caches.
func (c *jobController) restart() {
	c.syncs, c.jobs.closed, c.pods.closed = map[types.UID]*jobWorker{}, true, true
	c.startWatches()
	for _, o := range c.jobs.list() {
		c.enqueue(o.GetUID(), 0)
	}
	for _, o := range c.pods.list() {
		if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == string(jobKind) && c.findJob(owner.UID) == nil {
			c.releaseOrphans(owner.UID)
		}
	}
}

// runSteps runs the requests of a sync. An error, except of a request for a pod, ends the sync. After each error, it is
// repeated with a back-off.
func (c *jobController) runSteps(s *jobSync, steps []func() error) {
	if len(steps) == 0 {
		c.finishSync(s, s.podErr)
		return
	}
	jobs := c.jobs
	c.w.after("job-controller/requests", func() {
		if jobs.closed {
			return // the controller has restarted
		}
		if err := steps[0](); err != nil {
			c.finishSync(s, err)
			return
		}
		c.runSteps(s, steps[1:])
	})
}

func (c *jobController) finishSync(s *jobSync, err error) {
	worker := s.worker
	worker.busy = false
	if err != nil && !errors.Is(err, errSyncEnded) {
		c.repeat(worker, s.job.UID)
		return
	}
	worker.failures = 0
	if worker.dirty {
		c.enqueue(s.job.UID, 0)
	}
	if s.nextSync > 0 {
		c.w.at(c.w.now.Add(s.nextSync), func() { c.sync(s.job.UID) })
	}
}

// repeat schedules a sync after the back-off of a failed sync.
func (c *jobController) repeat(worker *jobWorker, uid types.UID) {
	c.enqueue(uid, min(time.Second<<min(worker.failures, 6), time.Minute))
	worker.failures++
}

// errSyncEnded ends a sync early without a failure.
var errSyncEnded = errors.New("the sync has ended")

func isJobFinished(job *batchv1.Job) bool {
	return hasJobCondition(job, batchv1.JobComplete) || hasJobCondition(job, batchv1.JobFailed)
}

// isCompleting reports whether a Job is complete or is about to be; false for nil.
func isCompleting(job *batchv1.Job) bool {
	return job != nil &&
		(hasJobCondition(job, batchv1.JobComplete) || hasJobCondition(job, batchv1.JobSuccessCriteriaMet))
}

// hasResult reports whether a Job is finished or is about to be; false for nil.
func hasResult(job *batchv1.Job) bool { return job != nil && isJobFinished(job) || isCompleting(job) }

func hasJobCondition(job *batchv1.Job, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == t && c.Status == corev1.ConditionTrue
	})
}

// newPod returns a pod of an index.
func (c *jobController) newPod(job *batchv1.Job, index int32) *corev1.Pod {
	name := job.Name + "-" + strconv.Itoa(int(index))
	suffix := c.w.stream("pod-names").IntN(1 << 20)
	pod := newPodOf(job, &job.Spec.Template, fmt.Sprintf("%s-%05x", name, suffix), name)
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	pod.Labels[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(int(index))
	pod.Labels[batchv1.ControllerUidLabel] = string(job.UID)
	return pod
}

// newPodOf returns a pod with the template of a workload.
func newPodOf(owner client.Object, template *corev1.PodTemplateSpec, name, hostname string) *corev1.Pod {
	pod := &corev1.Pod{Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.Labels = name, map[string]string{}
	for key, value := range template.Labels {
		pod.Labels[key] = value
	}
	pod.Spec.Hostname = hostname
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: apiVersionOf(owner), Kind: string(kindOf(owner)), Name: owner.GetName(), UID: owner.GetUID(),
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}}
	pod.Status.Phase = corev1.PodPending
	return pod
}

func apiVersionOf(o client.Object) string {
	if kindOf(o) == jobKind {
		return "batch/v1"
	}
	return "apps/v1"
}
