package plan

import corev1 "k8s.io/api/core/v1"

var terminationMessagePolicyTargets = targetKind{
	planned: func(a *applier) []target {
		return a.forEachTrainingContainer(func(name string) target { return terminationMessagePolicyTarget{name} })
	},
	apply: (*applier).applyTerminationMessagePolicy,
	recorded: func(r *Record, add func(target, string)) {
		for container, digest := range r.TerminationMessagePolicies {
			add(terminationMessagePolicyTarget{container}, digest)
		}
	},
}

// terminationMessagePolicyTarget is the terminationMessagePolicy of a container.
type terminationMessagePolicyTarget struct{ container string }

func (t terminationMessagePolicyTarget) currentValue(p *podTemplate) any {
	if c := p.containersByName[t.container]; c != nil {
		return c.TerminationMessagePolicy
	}
	return nil
}

func (t terminationMessagePolicyTarget) removeFrom(p *podTemplate) {
	if c := p.containersByName[t.container]; c != nil {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
}

func (t terminationMessagePolicyTarget) recordDigest(r *Record, digest string) {
	r.TerminationMessagePolicies.set(t.container, digest)
}

// applyTerminationMessagePolicy makes the kubelet keep the end of a failed container's log as its
// termination message. Otherwise the log is lost with the pod. A policy "File" is replaced: it is the
// default of the API server, so a value of the user cannot be distinguished.
func (a *applier) applyTerminationMessagePolicy() {
	for _, c := range a.trainingContainers() {
		t := terminationMessagePolicyTarget{c.Name}
		switch c.TerminationMessagePolicy {
		case "", corev1.TerminationMessageReadFile:
			c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		case corev1.TerminationMessageFallbackToLogsOnError:
			if !a.owned[t] {
				continue
			}
		}
		a.applied = append(a.applied, t)
	}
}
