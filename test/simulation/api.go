package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind is the kind of an object in the API server.
type kind string

const (
	jobKind         kind = "Job"
	statefulSetKind kind = "StatefulSet"
	podKind         kind = "Pod"
	serviceKind     kind = "Service"
	secretKind      kind = "Secret"
)

// namespace is the namespace of all objects.
const namespace = "team"

// resources are the resources of the kinds in errors.
var resources = map[kind]schema.GroupResource{
	jobKind:         batchv1.Resource("jobs"),
	statefulSetKind: appsv1.Resource("statefulsets"),
	podKind:         corev1.Resource("pods"),
	serviceKind:     corev1.Resource("services"),
	secretKind:      corev1.Resource("secrets"),
}

// kindOf returns the kind of an object or of a list.
func kindOf(o any) kind {
	switch o.(type) {
	case *batchv1.Job, *batchv1.JobList:
		return jobKind
	case *appsv1.StatefulSet, *appsv1.StatefulSetList:
		return statefulSetKind
	case *corev1.Pod, *corev1.PodList:
		return podKind
	case *corev1.Service, *corev1.ServiceList:
		return serviceKind
	case *corev1.Secret, *corev1.SecretList:
		return secretKind
	default:
		panic(fmt.Sprintf("no such kind: %T", o))
	}
}

// api is the API server. A stored object is never changed: a write replaces it. Its rules are those that
// Rollcall and the controllers rely on: optimistic locks, finalizers, grace periods, the generation, the
// status subresource, and the fields of a Job that are immutable while it runs.
type api struct {
	w       *world
	version int64
	// versions are the versions of the last write of each kind.
	versions map[kind]int64
	created  int
	objects  map[kind]map[string]client.Object
	watches  map[kind][]*watch
	// written is called after each write. before or after is nil for a creation or a deletion.
	written []func(before, after client.Object)
}

func newAPI(w *world) *api {
	a := &api{
		w: w, versions: map[kind]int64{}, objects: map[kind]map[string]client.Object{}, watches: map[kind][]*watch{},
	}
	for k := range resources {
		a.objects[k] = map[string]client.Object{}
	}
	return a
}

// find returns a stored object, which the caller must not change; nil if it does not exist.
func (a *api) find(k kind, name string) client.Object { return a.objects[k][name] }

// list returns the stored objects of a kind in the order of their names.
func (a *api) list(k kind) []client.Object {
	var out []client.Object
	for _, name := range slices.Sorted(maps.Keys(a.objects[k])) {
		out = append(out, a.objects[k][name])
	}
	return out
}

// get returns a copy of a stored object, or NotFound.
func (a *api) get(k kind, name string) (client.Object, error) {
	o := a.find(k, name)
	if o == nil {
		return nil, apierrors.NewNotFound(resources[k], name)
	}
	return clone(o), nil
}

// removeFinalizer removes a finalizer from a copy of an object.
func removeFinalizer(o client.Object, finalizer string) {
	o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer }))
}

// clone returns a deep copy of an object.
func clone[T client.Object](o T) T { return o.DeepCopyObject().(T) }

// create stores a new object, and sets what the API server sets.
func (a *api) create(o client.Object) (client.Object, error) {
	k := kindOf(o)
	if a.find(k, o.GetName()) != nil {
		return nil, apierrors.NewAlreadyExists(resources[k], o.GetName())
	}
	o = clone(o)
	a.created++
	o.SetNamespace(namespace)
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", a.created)))
	o.SetCreationTimestamp(a.time())
	o.SetGeneration(1)
	o.SetDeletionTimestamp(nil)
	a.store(nil, o)
	return clone(o), nil
}

// time returns the time of the API server, to the second.
func (a *api) time() metav1.Time { return metav1.NewTime(a.w.now.Truncate(time.Second)) }

// update replaces the stored object. A resource version that is not the stored one is a conflict; an empty
// one always matches. With the subresource status, the spec stays, and otherwise the status.
func (a *api) update(o client.Object, subresource string) (client.Object, error) {
	k := kindOf(o)
	before := a.find(k, o.GetName())
	switch {
	case before == nil || o.GetUID() != "" && o.GetUID() != before.GetUID():
		return nil, apierrors.NewNotFound(resources[k], o.GetName())
	case o.GetResourceVersion() != "" && o.GetResourceVersion() != before.GetResourceVersion():
		return nil, apierrors.NewConflict(resources[k], o.GetName(), nil)
	}
	o = clone(o)
	o.SetUID(before.GetUID())
	o.SetCreationTimestamp(before.GetCreationTimestamp())
	o.SetDeletionTimestamp(before.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
	o.SetGeneration(before.GetGeneration())
	if err := a.keepOtherHalf(before, o, subresource); err != nil {
		return nil, err
	}
	o.SetResourceVersion(before.GetResourceVersion())
	if equality.Semantic.DeepEqual(before, o) {
		return clone(o), nil // nothing is written without a change
	}
	if isGone(o) {
		a.remove(before)
		return clone(o), nil
	}
	a.store(before, o)
	return clone(o), nil
}

// isGone reports whether an object is being deleted and nothing keeps it.
func isGone(o client.Object) bool {
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 {
		return false
	}
	_, isPod := o.(*corev1.Pod)
	return !isPod || ptr.Deref(o.GetDeletionGracePeriodSeconds(), 0) == 0
}

// keepOtherHalf restores the spec or the status, validates a change of the spec, and raises the generation.
func (a *api) keepOtherHalf(before, o client.Object, subresource string) error {
	switch o := o.(type) {
	case *batchv1.Job:
		before := before.(*batchv1.Job)
		if subresource == "status" {
			o.Spec = *before.Spec.DeepCopy()
			return validateJobStatus(before, o)
		}
		o.Status = *before.Status.DeepCopy()
		if !equality.Semantic.DeepEqual(before.Spec, o.Spec) {
			o.Generation++
		}
		return validateJobUpdate(before, o)
	case *appsv1.StatefulSet:
		before := before.(*appsv1.StatefulSet)
		if subresource == "status" {
			o.Spec = *before.Spec.DeepCopy()
			return nil
		}
		o.Status = *before.Status.DeepCopy()
		if !equality.Semantic.DeepEqual(before.Spec, o.Spec) {
			o.Generation++
		}
	case *corev1.Pod:
		if subresource != "status" {
			o.Status = *before.(*corev1.Pod).Status.DeepCopy()
		}
	}
	return nil
}

// remove deletes an object from the store.
func (a *api) remove(before client.Object) {
	k := kindOf(before)
	a.version++
	a.versions[k] = a.version
	delete(a.objects[k], before.GetName())
	for _, w := range a.watches[k] {
		w.deliver(before, nil)
	}
	for _, f := range a.written {
		f(before, nil)
	}
}

// store stores an object and delivers it to all watches.
func (a *api) store(before, after client.Object) {
	k := kindOf(after)
	a.version++
	a.versions[k] = a.version
	after.SetResourceVersion(strconv.FormatInt(a.version, 10))
	a.objects[k][after.GetName()] = after
	for _, w := range a.watches[k] {
		w.deliver(before, after)
	}
	for _, f := range a.written {
		f(before, after)
	}
}

// deleteOptions are the options of a deletion. The zero value deletes with the grace period of the pod.
type deleteOptions struct {
	uid types.UID
	// force deletes a pod without a grace period, as a kubelet or an administrator does.
	force bool
	// foreground keeps a workload until its pods are deleted.
	foreground bool
}

// delete deletes an object, or marks it as being deleted.
func (a *api) delete(k kind, name string, o deleteOptions) error {
	before := a.find(k, name)
	if before == nil || o.uid != "" && before.GetUID() != o.uid {
		return apierrors.NewNotFound(resources[k], name)
	}
	after := clone(before)
	if o.foreground {
		after.SetFinalizers(append(slices.Clone(after.GetFinalizers()), metav1.FinalizerDeleteDependents))
	}
	pod, isPod := after.(*corev1.Pod)
	var grace int64
	if isPod && !o.force && pod.Spec.NodeName != "" && !isTerminal(pod) {
		grace = ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 30)
	}
	isShorter := after.GetDeletionTimestamp() != nil && grace < ptr.Deref(after.GetDeletionGracePeriodSeconds(), 0)
	if after.GetDeletionTimestamp() == nil || isShorter {
		after.SetDeletionTimestamp(ptr.To(metav1.NewTime(a.time().Add(time.Duration(grace) * time.Second))))
		after.SetDeletionGracePeriodSeconds(ptr.To(grace))
	}
	a.storeDeletion(before, after, isPod)
	return nil
}

// storeDeletion stores that an object is being deleted, or removes it. Watches see that a pod has no grace period
// left, also immediately before it is gone.
func (a *api) storeDeletion(before, after client.Object, isPod bool) {
	if !equality.Semantic.DeepEqual(before, after) && (isPod || !isGone(after)) {
		a.store(before, after)
		before = after
	}
	if isGone(after) {
		a.remove(before)
	}
}

// isTerminal reports whether a pod has succeeded or failed.
func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// watch is a cache of the objects of one kind that one controller has. Each change arrives after a delay, in
// order. The zero values of the functions keep each object as it is, and call nobody.
type watch struct {
	w      *world
	api    *api
	stream string
	// transform returns the form of an object in the cache; nil leaves the object out.
	transform func(client.Object) client.Object
	// changed is called after a change arrived. after is nil if the object was deleted.
	changed func(before, after client.Object)
	objects map[string]client.Object
	last    time.Time
	closed  bool
	// version is the version of the API server up to which the cache is complete.
	version int64
}

// watch starts a watch with all objects that exist.
func (a *api) watch(
	k kind, streamName string, transform func(client.Object) client.Object, changed func(before, after client.Object),
) *watch {
	if transform == nil {
		transform = func(o client.Object) client.Object { return o }
	}
	out := &watch{
		w: a.w, api: a, stream: streamName, transform: transform, changed: changed, version: a.version,
		objects: map[string]client.Object{},
	}
	for _, o := range a.list(k) {
		if t := transform(o); t != nil {
			out.objects[o.GetName()] = t
		}
	}
	a.watches[k] = append(a.watches[k], out)
	return out
}

// deliver delivers a change after the next delay of the stream, and after all earlier changes.
func (c *watch) deliver(before, after client.Object) {
	if c.closed {
		return
	}
	due := c.w.now.Add(c.w.delay(c.stream))
	if due.Before(c.last) {
		due = c.last
	}
	c.last = due
	name, version := nameOf(before, after), c.api.version
	c.w.at(due, func() {
		if c.closed {
			return
		}
		c.version = version
		cached := c.objects[name]
		var next client.Object
		if after != nil {
			next = c.transform(after)
		}
		switch {
		case next != nil:
			c.objects[name] = next
		case cached != nil:
			delete(c.objects, name)
		default:
			return
		}
		if c.changed != nil {
			c.changed(cached, next)
		}
	})
}

func nameOf(objects ...client.Object) string {
	for _, o := range objects {
		if o != nil && !reflect.ValueOf(o).IsNil() {
			return o.GetName()
		}
	}
	return ""
}

// list returns the objects of a cache in the order of their names. The caller must not change them.
func (c *watch) list() []client.Object {
	out := slices.Collect(maps.Values(c.objects))
	slices.SortFunc(out, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// podsOf returns the pods of a cache that a workload controls.
func (c *watch) podsOf(owner types.UID) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range c.list() {
		if ref := metav1.GetControllerOf(o); ref != nil && ref.UID == owner {
			out = append(out, o.(*corev1.Pod))
		}
	}
	return out
}
