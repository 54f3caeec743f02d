package jobset

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"rollcall.training/migrate/ledger"
)

// prepare sees to the jobs that had to be complete before others began.
func (s *Set) prepare() {
	for _, j := range s.Jobs {
		if j.Role != "" || !s.preparation(j) {
			continue
		}
		var waiters []*Job
		for _, m := range s.Jobs {
			at := slices.IndexFunc(m.waits, func(w wait) bool { return w.complete && w.name == j.Name })
			switch {
			case at < 0:
			case m.Role == "" && !m.Alone:
				m.waits[at].node.Lost("nothing makes one plain Job wait for another to complete", "apply the second when the first is complete")
			default:
				waiters = append(waiters, m)
			}
		}
		if len(waiters) > 0 && s.fits(waiters, j) {
			s.within(waiters, j)
			continue
		}
		for _, m := range waiters {
			s.waitFor(m, j)
		}
	}
}

// complete is the entry of m's that waits for j.
func (j *Job) complete(on *Job) wait {
	at := slices.IndexFunc(j.waits, func(w wait) bool { return w.complete && w.name == on.Name })
	return j.waits[at]
}

// inside is the place of a job that became init containers of others.
const inside = "."

// within makes a job's containers init containers of the pods that waited for it.
func (s *Set) within(waiters []*Job, j *Job) {
	s.literals(j, index{"0", s.before(j, ""), s.before(j, j.groupName())})
	inits := slices.Clone(j.spec().InitContainers)
	for _, c := range j.spec().Containers {
		inits = append(inits, bare(c))
	}
	for _, m := range waiters {
		m.spec().InitContainers = append(m.spec().InitContainers, inits...)
		for _, v := range j.spec().Volumes {
			if !slices.ContainsFunc(m.spec().Volumes, func(o corev1.Volume) bool { return o.Name == v.Name }) {
				m.spec().Volumes = append(m.spec().Volumes, v)
			}
		}
		m.complete(j).node.Carried("init containers run before all others, one after the other")
		j.Node.Remark(ledger.Changed, "init containers of the pods of "+m.Name,
			"it was a Job that ended before they began; now each pod does its work first, and holds meanwhile what it asked for", "")
	}
	j.place = inside
	j.account("init containers of the workload")
	j.pod().Carried("init containers of the workload")
}

// bare is a container as one of init, which has no probes.
func bare(c corev1.Container) corev1.Container {
	c.ReadinessProbe, c.LivenessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
	return c
}

// waitFor makes the pods of m wait for a job to complete.
func (s *Set) waitFor(m, j *Job) {
	node := m.complete(j).node
	volume := common(m, j)
	if volume == nil {
		node.Lost("the two have no volume in common on which the gang could see that "+j.Name+" is complete",
			fmt.Sprintf("apply it first, wait with kubectl wait --for=condition=Complete job/%s-0, then apply the gang", j.place))
		return
	}
	s.mark(m, j, *volume)
	node.Changed("init container "+label(waiting+j.Name),
		fmt.Sprintf("the pods begin at once, hold what they ask for, and wait for a file on volume %s that the Job leaves when it is complete; if it fails they wait on. They mount the volume meanwhile: where it is one for one node at a time, the Job may never start", volume.Name),
		fmt.Sprintf("see whether job/%s-0 is complete if they wait for long; delete the file to have the work done anew", j.place))
}

// fits reports whether each waiting pod can do j's work by itself, before its own: where
// there is but one, or what is written to is the pod's own; and where the pods have
// nothing else in which they differ.
func (s *Set) fits(waiters []*Job, j *Job) bool {
	pods := int32(0)
	for _, m := range waiters {
		pods += m.Replicas * m.Pods
		if !alike(m.spec(), j.spec()) || clash(m, j) {
			return false
		}
	}
	if pods == 1 {
		return j.Replicas*j.Pods == 1
	}
	// What is done outside of the pod is done once.
	return j.Replicas*j.Pods == 1 && len(j.spec().Volumes) > 0 && !slices.ContainsFunc(j.spec().Volumes, func(v corev1.Volume) bool {
		return v.EmptyDir == nil && slices.ContainsFunc(j.containers(), func(c *corev1.Container) bool { return writes(c, v.Name) })
	})
}

// clash reports whether two pods have different things of one name.
func clash(m, j *Job) bool {
	for _, c := range j.containers() {
		if slices.ContainsFunc(m.containers(), func(o *corev1.Container) bool { return o.Name == c.Name }) {
			return true
		}
	}
	for _, v := range j.spec().Volumes {
		if slices.ContainsFunc(m.spec().Volumes, func(o corev1.Volume) bool { return o.Name == v.Name && !equality.Semantic.DeepEqual(o, v) }) {
			return true
		}
	}
	return false
}

// writes reports whether a container may write to a volume.
func writes(c *corev1.Container, volume string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume && !m.ReadOnly })
}

// alike reports whether a pod with the settings of m does for j's containers too: j asks
// for nothing that m does not have.
func alike(m, j *corev1.PodSpec) bool {
	a, b := m.DeepCopy(), j.DeepCopy()
	for _, spec := range []*corev1.PodSpec{a, b} {
		spec.InitContainers, spec.Containers, spec.Volumes, spec.RestartPolicy, spec.Subdomain = nil, nil, nil, "", ""
	}
	return equality.Semantic.DeepEqual(*b, corev1.PodSpec{}) || equality.Semantic.DeepEqual(*a, *b)
}

// common is the mount, in the training container of m, of a volume that both have and
// that outlives a pod; nil when there is none.
func common(m, j *Job) *corev1.VolumeMount {
	c := m.trainer()
	if c == nil {
		return nil
	}
	for _, v := range j.spec().Volumes {
		if v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil || v.Ephemeral != nil {
			continue
		}
		same := slices.ContainsFunc(m.spec().Volumes, func(o corev1.Volume) bool { return equality.Semantic.DeepEqual(o, v) })
		written := slices.ContainsFunc(j.containers(), func(c *corev1.Container) bool { return writes(c, v.Name) })
		at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		if same && written && at >= 0 {
			return &c.VolumeMounts[at]
		}
	}
	return nil
}

// waiting begins the names of the init containers that wait.
const waiting = "wait-for-"

// label is a name that is not too long for a container.
func label(name string) string {
	return strings.TrimRight(name[:min(len(name), validation.DNS1123LabelMaxLength)], "-")
}

// Where the mark is seen, in containers that have nothing else to do with the volume.
const markPath = "/rollcall-mark"

// mark makes a Job leave a file when its work is done, and the pods of m wait for it. The
// work becomes init containers of the Job's pod, and what is left to its container is to
// write the file. Both use the image of the container that trains, whose shell the gang
// relies on anyway.
func (s *Set) mark(m, j *Job, volume corev1.VolumeMount) {
	file := fmt.Sprintf("%s/.%s-%s.complete", markPath, s.Blueprint.Name, j.Name)
	container := func(name, script string) corev1.Container {
		return corev1.Container{
			Name: name, Image: m.trainer().Image, ImagePullPolicy: m.trainer().ImagePullPolicy, SecurityContext: m.trainer().SecurityContext,
			VolumeMounts: []corev1.VolumeMount{{Name: volume.Name, MountPath: markPath, SubPath: volume.SubPath}},
			Command:      []string{"/bin/sh", "-c", script},
		}
	}
	m.spec().InitContainers = append([]corev1.Container{container(label(waiting+j.Name), "until [ -e "+file+" ]; do sleep 5; done")}, m.spec().InitContainers...)
	if slices.ContainsFunc(j.spec().Containers, func(c corev1.Container) bool { return c.Name == marking }) {
		return // for another member already
	}
	for _, c := range j.spec().Containers {
		j.spec().InitContainers = append(j.spec().InitContainers, bare(c))
	}
	j.spec().Containers = []corev1.Container{container(marking, "touch "+file)}
	for _, secret := range m.spec().ImagePullSecrets {
		if !slices.Contains(j.spec().ImagePullSecrets, secret) {
			j.spec().ImagePullSecrets = append(j.spec().ImagePullSecrets, secret)
		}
	}
}

// marking is the name of the container that leaves the mark.
const marking = "mark-complete"
