package simulation

// mutants returns mutants of the decisions, and former builds without the fix of a finding of the review.
func mutants() []mutant { return append(decisionMutants(), formerBuilds()...) }

func decisionMutants() []mutant {
	return []mutant{{
		name: "a restart does not wait for pods",
		edits: []edit{{
			"lifecycle/state.go", "return !snapshot.AllPodsTerminated", "return false",
		}},
	}, {
		name: "completed indexes are not reset",
		edits: []edit{{
			"attempt/attempt.go", "hasCompleted := restartsCompleted &&", "hasCompleted := !restartsCompleted &&",
		}},
	}, {
		name: "disruptions use up restarts",
		edits: []edit{{
			"lifecycle/restart.go", "func (s State) countIncident(n int32) State {\n\tif s.FirstFailure.IsDisruption() {",
			"func (s State) countIncident(n int32) State {\n\tif s.FirstFailure == nil {",
		}},
	}, {
		name: "a gang is disrupted once more than permitted", sequence: "a gang is disrupted more often",
		edits: []edit{{
			"lifecycle/restart.go", "s.Disruptions >= policies.MaxDisruptions", "s.Disruptions > policies.MaxDisruptions",
		}},
	}, {
		name: "a schedule timeout uses up a restart", sequence: "a gang gives back the nodes",
		edits: []edit{{
			"failure/failure.go", "ReasonMemberSuspended, ReasonScheduleTimeout,", "ReasonMemberSuspended,",
		}},
	}, {
		name: "pods of a gang that ended stay", sequence: "all pods of a gang",
		edits: []edit{{
			"controller/actions.go", "if !s.Phase.Terminal() || g.gangPolicies()", "if true || g.gangPolicies()",
		}},
	}, {
		name: "pods of a stranger are deleted", sequence: "the pods of a stranger stay",
		edits: []edit{{
			"controller/actions.go", "gang.LabelGang: m.Result.Gang.Name, gang.LabelRole: m.Result.Gang.Role}.AsSelector()",
			"gang.LabelGang: m.Result.Gang.Name}.AsSelector()",
		}, {"controller/actions.go", "return selector.Add(*ownedByJob)", "_ = ownedByJob\n\treturn selector"}},
	}, {
		name: "a gang that succeeded forgets its ranks", sequence: "a StatefulSet that succeeded runs on",
		edits: []edit{{
			"lifecycle/completed_ranks.go", "== gang.CleanPodPolicyNone && snapshot.hasCompletedRank():",
			"== gang.CleanPodPolicyNone && snapshot.hasCompletedRank() && false:",
		}, {"lifecycle/completed_ranks.go", "case s.Phase.Active(), s.Phase == Succeeded:", "case s.Phase.Active():"}},
	}, {
		name:  "pods that are gone are ignored",
		edits: []edit{{"lifecycle/restart.go", "case s.unobservedFailures(snapshot) > 0:", "case false:"}},
	}, {
		name: "an exit precedes the condition of its kubelet", sequence: "a kubelet terminates a rank, and",
		edits: []edit{{"failure/disruption.go", "t.FinishedAt.Time.Before(decided)", "false"}},
	}, {
		name: "a rank has succeeded that its kubelet terminated", sequence: "a kubelet terminates a rank that exits",
		edits: []edit{{
			"failure/succeeded.go", "return !isTerminatedByKubelet(pod)",
			"return !isStatefulSetPod || !isTerminatedByKubelet(pod)",
		}},
	}, {
		name: "pods that Jobs replaced do not count", sequence: "a Job that ignores disruptions",
		edits: []edit{{"lifecycle/restart.go", "max(counted, snapshot.ReplacedPods)", "counted"}},
	}, {
		name: "a gang forgets when its ranks were ready first", sequence: "a Job that ignores disruptions replaces",
		edits: []edit{{
			"lifecycle/replaced_pods.go", "isNew := s.ReadyTime.IsZero() && last != Running", "isNew := last != Running",
		}},
	}, {
		name: "no pass follows the end of the back-off",
		edits: []edit{{
			"controller/reconciler.go", "next.Phase == lifecycle.Restarting && remaining > 0",
			"next.Phase == lifecycle.Restarting && remaining < 0",
		}},
	}, {
		name:  "lost ranks are ignored",
		edits: []edit{{"lifecycle/restart.go", "case s.hasLostRanks(snapshot):", "case false:"}},
	}, {
		name: "completed members are not recorded",
		edits: []edit{{
			"lifecycle/state.go", "next.CompletedMembers = snapshot.Members.CompletedJobs()", "next.CompletedMembers = nil",
		}},
	}, {
		name: "the Service selects all attempts",
		edits: []edit{{
			"controller/isolation.go", "return g.observed.StuckPod != nil", "return false && g.observed.StuckPod != nil",
		}},
	}, {
		name: "the Service of a suspended gang selects all attempts", sequence: "a user resumes a gang whose pods",
		edits: []edit{{"controller/isolation.go", "return next.Phase == lifecycle.Suspended &&", "return false &&"}},
	}, {
		name: "a gang is suspended before its Service selects the next attempt", sequence: "a user resumes a gang before",
		edits: []edit{{"controller/children.go", "= g.isSuspendedWithPods(next) && g.hasAttemptLabels()", "= false"}},
	}, {
		name: "a pod that is gone when a gang is resumed counts for the attempt before", sequence: "a pod is deleted and",
		edits: []edit{{"lifecycle/state.go", "n != nil && snapshot.HasPods", "false"}},
	}, {
		name: "a failed pod that exists when a gang is resumed counts twice", sequence: "a rank fails before the cache shows",
		edits: []edit{{"lifecycle/state.go", "snapshot.FailedPodsBeforeResume != nil && snapshot.ObservedFailures", "0"}},
	}, {
		name: "a pod of the attempt that starts counts for the one before", sequence: "a pod is deleted before the start",
		edits: []edit{{
			"lifecycle/evidence.go", "countUncountedFailures(w.Job, w.excludeNextAttempt(s))",
			"countUncountedFailures(w.Job, w.Pods)",
		}},
	}, {
		name: "the Service waits until a Job reports its suspension", sequence: "a queue resumes a Job when its controller",
		edits: []edit{{
			"controller/isolation.go", "lifecycle.Suspended && g.observed.HasPods &&",
			"lifecycle.Suspended && g.memberStates.AllSuspended() &&",
		}},
	}, {
		name: "the Service ignores a pod on a lost node", sequence: "a queue resumes a Job next to a pod on a lost node",
		edits: []edit{{"controller/isolation.go", "|| g.observed.TerminatingPods > 0", ""}},
	}, {
		name: "an exit while a member was suspended counts", sequence: "18 a member is suspended, and its peers",
		edits: []edit{{"failure/earlier_attempt.go", "return c.hasEndedBefore", "return false && c.hasEndedBefore"}},
	}, {
		name:     "a restart waits for a failed pod that its Job counts only later",
		sequence: "kube-controller-manager restarts before it has counted",
		edits: []edit{{
			"attempt/attempt.go", "len(uncounted.Failed) > 0 && job.Spec.BackoffLimitPerIndex == nil",
			"len(uncounted.Failed) > 0",
		}},
	}, {
		name: "nobody names the pod of a deleted StatefulSet", sequence: "a pod of a deleted StatefulSet stays",
		edits: []edit{{"lifecycle/pods.go", "if w.NameHolder != nil {", "if false {"}},
	}, {
		name: "nobody names a pod that a finalizer keeps", sequence: "a stranger keeps a pod of a StatefulSet",
		edits: []edit{{"lifecycle/pods.go", "IsPodTerminal(pod) && w.StatefulSet == nil", "IsPodTerminal(pod)"}},
	}, {
		name: "the pods of a lost node are not a failure", sequence: "a gang restarts when a node",
		edits: []edit{{"failure/hardware.go", "if c.IgnoresLostNodes ||", "if true || c.IgnoresLostNodes ||"}},
	}, {
		name: "a lost node is a reason for each attempt", sequence: "a late cache shows a lost node",
		edits: []edit{{"failure/hardware.go", "|| !lost.After(c.AttemptStartTime) {", "{"}},
	}, {
		name: "a replaced pod in a late cache is a deleted rank", sequence: "a late cache contains a pod that",
		edits: []edit{{
			"lifecycle/rollout.go", "	return revision != status.UpdateRevision\n",
			"	return !isRolling && revision != status.UpdateRevision\n",
		}},
	}, {
		name: "a decision because of a lost node is forgotten", sequence: "a node returns while",
		edits: []edit{{"lifecycle/memory.go", "|| !d.firstFailure.IsDisruption() &&", "|| d.firstFailure != nil ||"}},
	}, {
		name: "a restart does not wait for a lost node although it must", sequence: "a restart waits for a lost node",
		edits: []edit{{
			"controller/isolation.go", "remaining == 0 && first.Gang.RestartRules.RestartOnNodeLoss", "remaining == 0",
		}, {
			"controller/isolation.go", "StuckPod != nil && g.gangPolicies().RestartOnNodeLoss", "StuckPod != nil",
		}},
	}, {
		name: "the template does not change with the status", sequence: "a lost node that returns",
		edits: []edit{{"controller/actions.go", "w.ReplaceExcludedNodes(before, after)", ""}},
	}, {
		name: "a failure of the hardware does not count at once", sequence: "a lost node that returns",
		edits: []edit{{"lifecycle/failed_nodes.go", "(isHardware || node.Failures", "(node.Failures"}},
	}, {
		name: "a node is avoided after one failure", sequence: "a node on which a rank failed first once",
		edits: []edit{{"lifecycle/failed_nodes.go", "suspectFailures = 2", "suspectFailures = 1"}},
	}, {
		name: "a gang never stops avoiding a node", sequence: "a gang stops avoiding its only node",
		edits: []edit{{
			"lifecycle/failed_nodes.go", "return snapshot.isPast(deadline) || !deadline.IsZero()",
			"return false && !deadline.IsZero()",
		}},
	}, {
		name: "the start timeout of a gang that avoids nodes is a failure", sequence: "a gang with a start timeout stops",
		edits: []edit{{
			"lifecycle/failed_nodes.go", "|| !deadline.IsZero() && s.isStartTimeoutExceeded(policies, snapshot)", "",
		}},
	}, {
		name: "a gang avoids a node again", sequence: "a gang that stopped avoiding a node",
		edits: []edit{{"lifecycle/failed_nodes.go", " && node.ReleaseTime.IsZero()", ""}},
	}, {
		name: "no pass follows the time at which a node is released", sequence: "a gang stops avoiding its only node",
		edits: []edit{{
			"lifecycle/placement.go", "s.scheduleDeadline(policies, snapshot),\n\t\ts.releaseDeadline(policies, snapshot))",
			"s.scheduleDeadline(policies, snapshot))",
		}},
	}, {
		name: "a gang with a StatefulSet avoids nodes", sequence: "a gang of a Job and a StatefulSet",
		edits: []edit{{
			"lifecycle/failed_nodes.go", "!slices.ContainsFunc(members, isStatefulSet)",
			"!slices.ContainsFunc(members[:0], isStatefulSet)",
		}},
	}, {
		name: "an unhealthy device is a failure at once", sequence: "a device recovers",
		edits: []edit{{
			"lifecycle/memory.go", "unhealthyPeriod = 10 * time.Second", "unhealthyPeriod = time.Second",
		}},
	}, {
		name: "the time of a device that recovered counts", sequence: "a device recovers",
		edits: []edit{{
			"lifecycle/memory.go", "observed := map[types.UID]time.Time{}",
			"observed := m.unhealthyPods\n\tif observed == nil {\n\t\tobserved = map[types.UID]time.Time{}\n\t}",
		}},
	}, {
		name: "no pass follows an unhealthy device", sequence: "a device is unhealthy for",
		edits: []edit{{"lifecycle/evidence.go", "out.NextCheckTime = nextCheckTime", "_ = nextCheckTime"}},
	}, {
		name: "the exit of a program with an unhealthy device is a failure", sequence: "a program exits because",
		edits: []edit{{
			"failure/detect.go", "c.attributeToDevice(pod, c.trainingContainerFailure(pod))",
			"c.trainingContainerFailure(pod)",
		}},
	}, {
		name: "the cache of pods contains no unhealthy devices", sequence: "a gang restarts because of an unhealthy",
		edits: []edit{{"controller/pod_cache.go", "trimmed.AllocatedResourcesStatus = anyUnhealthyDevice", ""}},
	}, {
		name: "the cache is not compared before a decision",
		edits: []edit{{
			"controller/observe.go", "for _, m := range g.Members {", "for _, m := range g.Members[:0] {",
		}},
	}, {
		name: "a pass decides over a cache without its last write",
		edits: []edit{{
			"controller/reconciler.go", "if g.hasStaleMember() {", "if false {",
		}},
		survives: "the optimistic lock of each write rejects the decisions, which costs requests",
	}, {
		name: "a gang fails without waiting for a member that completes",
		edits: []edit{{
			"lifecycle/memory.go", "if delay > 0 && slices", "if delay < 0 && slices",
		}},
	}, {
		name: "the failure of a suspended attempt counts",
		edits: []edit{{
			"lifecycle/state.go", "snapshot.FirstFailure = nil // a failure of the attempt that was suspended", "",
		}},
	}, {
		name: "the failure of a peer decides before pods that are gone",
		edits: []edit{{
			"lifecycle/restart.go", "case snapshot.FirstFailure.IsDisruption(), snapshot.FirstFailure.IsEviction():",
			"case snapshot.FirstFailure != nil:",
		}},
	}, {
		name: "no pass follows the deadline of a pod",
		edits: []edit{{
			"controller/observe.go", "g.pass.requeueAfter(next.Sub(e.Now))", "",
		}},
	}, {
		name:  "the time of the last restart replaces that of all restarts",
		edits: []edit{{"lifecycle/seconds.go", "out.Restarting += elapsed", "out.Restarting = elapsed"}},
	}, {
		name: "pods that are evicted while the gang restarts complete their Job", sequence: "the workers are drained",
		edits: []edit{{"lifecycle/pods.go", "if !isRestarting || canAllSucceed(w, pods) {", "if !isRestarting {"}},
	}, {
		name: "pods that are not counted yet are not part of the baseline",
		edits: []edit{{
			"lifecycle/state.go", "snapshot.Members.FailedPods() + snapshot.UncountedFailures", "snapshot.Members.FailedPods()",
		}},
	}, {
		name:     "a Job that its user resumes keeps the number of its last attempt",
		sequence: "a user resumes a Job before its template has the number of the attempt",
		edits:    []edit{{"../injectors/suspend.go", ", resumed && status.Phase == lifecycle.Suspended:", ":"}},
	}}
}
