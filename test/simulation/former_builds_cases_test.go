package simulation

// formerBuilds are the findings of the review, and later findings of the simulator, before they were fixed.
func formerBuilds() []mutant {
	return []mutant{{
		name: "N2 a suspension starts no attempt", sequence: "17 ",
		edits: []edit{
			{"lifecycle/state.go", "(snapshot.HasPods || s.wereAllReady()) {\n\t\ts.Attempt++", "false {"},
			{"failure/earlier_attempt.go", "return c.hasEndedBeforeResumption(pod)", "return false"},
			{"failure/earlier_attempt.go", "return hasExitedBy(pod, c.AttemptStartTime)", "return false"},
		},
	}, {
		name: "N8 a resize that is forbidden is not reported", sequence: "24 ",
		edits: []edit{
			{"controller/resize.go", "!isDenied && !isRejected(err)", "!isDenied"},
			{"lifecycle/rollout.go", "return isResized && !w.ResizeOverdue", "return isResized"},
		},
	}, {
		name: "N9 a decision does not compare the cache", sequence: "18 ",
		edits: []edit{{"controller/observe.go", "for _, m := range g.Members {", "for _, m := range g.Members[:0] {"}},
	}, {
		name: "N10a a lost rank counts only before all were ready", sequence: "19 ",
		edits: []edit{{"lifecycle/restart.go", "(!s.wereAllReady() || s.CompletedRanks != \"\")", "!s.wereAllReady()"}},
	}, {
		name: "N10b a Job of a queue is not reset", sequence: "20 ",
		edits: []edit{
			{"controller/job_status.go", "return m.restartsCompleted() && m.Job.Status.Succeeded > 0", "return false"},
			{
				"lifecycle/restart.go", "return isStarted && start.After(s.JobStartTime) && snapshot",
				"return isStarted && start.Before(s.JobStartTime) && snapshot",
			},
		},
	}, {
		name: "a Job of a queue keeps the Workload of its completed ranks", sequence: "20 ",
		edits: []edit{{"attempt/attempt.go", "\t\trequeue(job)\n", ""}},
	}, {
		name: "N11 a start timeout counts from the creation", sequence: "21 ",
		edits: []edit{{
			"lifecycle/restart.go", "start, isStarted := members.latestStart(s.AttemptStartTime)",
			"start, isStarted := s.AttemptStartTime, true",
		}},
	}, {
		name: "N12 a removed member does not count as complete", sequence: "22 ",
		edits: []edit{{"lifecycle/members.go", "ok && !s.Exists {", "ok && !s.Exists && s.Exists {"}},
	}, {
		name: "N12 a gang with a removed member restarts", sequence: "23 ",
		edits: []edit{{"lifecycle/members.go", "ok && !s.Exists {", "ok && !s.Exists && s.Exists {"}},
	}, {
		name: "N13 the owners of the Service do not identify a gang", sequence: "26 ",
		edits: []edit{{"roster/identity.go", "recorded := serviceOwners", "recorded := serviceOwners[:0]"}},
	}, {
		name: "N17 only the condition Failed ends a gang", sequence: "25 ",
		edits: []edit{{
			"lifecycle/observation.go", "case batchv1.JobFailureTarget, batchv1.JobFailed:", "case batchv1.JobFailed:",
		}},
	}, {
		name: "N20 drained pods stay tracked", sequence: "27 all ranks are drained and",
		edits: []edit{{"controller/job_status.go", "for i, name := range names {", "for i, name := range names[:0] {"}},
	}, {
		name: "N21a and N21c the clock of the machine decides about pods and attempts", sequence: "N21a ",
		edits: []edit{{"controller/server_clock.go", "if !c.exceeds {", "if c.isMeasured {"}},
	}, {
		name: "N21b the clocks of nodes differ by a second at most", sequence: "28 ",
		edits: []edit{{"failure/failure.go", "deletionTolerance = 5 * time.Second", "deletionTolerance = time.Second"}},
	}, {
		name: "leftover 1 a gang fails without waiting for its master", sequence: "14 ",
		edits: []edit{{"lifecycle/memory.go", "if delay > 0 && slices", "if delay < 0 && slices"}},
	}, {
		name: "A1 a running gang claims that its ranks are ready", sequence: "A1 ",
		edits: []edit{{"lifecycle/messages.go", "All %d ranks have been ready", "All %d ranks are ready"}},
	}, {
		name: "A3 a restart ignores lost pods at once", sequence: "A3 ",
		edits: []edit{{
			"controller/isolation.go", "g.ignoresOverduePods = g.isIsolated && remaining == 0", "g.ignoresOverduePods = true",
		}, {
			"controller/isolation.go", "return g.observed.StuckPod != nil", "return false && g.observed.StuckPod != nil",
		}},
	}, {
		name:     "a rank whose place another rank has taken is not lost",
		sequence: "a drained rank completes after its Job replaced it before",
		edits: []edit{{
			"lifecycle/completed_ranks.go", "lost + max(0, min(runAgain, withoutPod))", "lost + min(0, runAgain, withoutPod)",
		}},
	}, {
		name: "starts are repeated without a back-off", sequence: "a queue resumes a Job ",
		edits: []edit{{"lifecycle/restart.go", "s.LastRestartTime.Add(Backoff(s.DisruptionStreak))", "s.LastRestartTime"}},
	}, {
		name: "one drained pod of each Job is untracked", sequence: "all ranks of a Job that needs two of three",
		edits: []edit{{"lifecycle/pods.go", "needed := scope.size - scope.count + 1", "needed := int32(1)"}},
	}, {
		name: "the failure of a completed rank counts", sequence: "a rank of a StatefulSet succeeds, and fails",
		edits: []edit{{"lifecycle/completed_ranks.go", "if w.StatefulSet == nil || known.Len() == 0 {", "if true {"}},
	}, {
		name: "a completed rank of a StatefulSet must be ready", sequence: "a rank of a StatefulSet succeeds, and fails",
		edits: []edit{{"lifecycle/evidence.go", "if w.StatefulSet != nil && completed.Len() > 0 {", "if false {"}},
	}, {
		name: "a drained pod counts while another member is suspended", sequence: "the master is drained while",
		edits: []edit{{"controller/job_status.go", "isAnySuspended && m.restartsCompleted()", "false && isAnySuspended"}},
	}, {
		name: "a pod that was replaced during a suspension runs on", sequence: "a master that its Job replaced",
		edits: []edit{{"lifecycle/evidence.go", "w.hasFormerPods(s.LastTransitionTime)", "false"}},
	}, {
		name: "a failed pod of the run before counts in each attempt", sequence: "a user starts one of two Jobs again next",
		edits: []edit{{
			"failure/earlier_attempt.go", "	if isEnding && pod.Creation", "	if isEnding && attempt < c.Attempt && pod.Creation",
		}},
	}, {
		name: "a pod of the second of a restart is one of the attempt before", sequence: "a StatefulSet has its next pods",
		edits: []edit{{
			"failure/earlier_attempt.go", "pod.CreationTimestamp.Time.Before(c.LastRestartTime.Add(-restartTimeTolerance))",
			"!pod.CreationTimestamp.Time.After(c.LastRestartTime)",
		}},
	}, {
		name: "a completed rank that runs again is not lost", sequence: "a drained rank completes after its Job replaced it,",
		edits: []edit{{
			"lifecycle/completed_ranks.go", "case !hasPod.Has(index), isReplaced[index]:", "case !hasPod.Has(index):",
		}},
		survives: "the pod that replaced another one shows the disruption, except in an elastic gang before Kubernetes 1.35",
	}, {
		name: "a failed pod of a late cache is a disruption of a start", sequence: "a rank fails before all ranks were",
		edits: []edit{{"lifecycle/restart.go", "!s.wereAllReady() || n <= uncounted", "n <= uncounted"}},
	}, {
		name: "an observed disruption replaces an unobserved disruption", sequence: "a peer of an unobserved ",
		edits: []edit{{
			"lifecycle/restart.go", "(s.FirstFailure.Rank < 0 ||",
			"(s.FirstFailure.Rank < 0 && !snapshot.FirstFailure.IsDisruption() ||",
		}},
	}, {
		name: "a lost node is found later than its peers fail", sequence: "ranks time out before",
		edits: []edit{{"failure/failure.go", "lostNodeTolerance = 55 * time.Second", "lostNodeTolerance = 5 * time.Second"}},
	}, {
		name: "a success hides the exit before", sequence: "a rank fails, runs again in its pod",
		edits: []edit{{"failure/detect.go", "return c.failureBeforeSuccess(pod)", "return nil"}},
	}, {
		name: "pods from before a suspension count as ready", sequence: "a Job is resumed before",
		edits: []edit{{"lifecycle/evidence.go", "if state.Attempt > 0 {", "if state.Attempt < 0 {"}},
	}, {
		name: "a success from before a suspension counts", sequence: "a gang that never restarts is",
		edits: []edit{{"failure/earlier_attempt.go", "return c.Attempt > 0 &&", "return c.Attempt < 0 &&"}},
	}, {
		name: "a complete Job was not resumed last", sequence: "the workers of a gang that never restarts complete",
		edits: []edit{{
			"lifecycle/members.go", "case !m.Exists && !m.Observed.Complete:", "case !m.Exists, m.Observed.Complete:",
		}},
	}, {
		name: "a pod precedes a resumption by the clock of the manager", sequence: "a rank exits a second after",
		edits: []edit{{
			"failure/earlier_attempt.go", "c.ResumeTime.Add(-tolerance)", "c.ResumeTime.Add(0 * tolerance)",
		}},
	}, {
		name: "an attempt starts when a pass observes it", sequence: "a rank exits before the cache shows that",
		edits: []edit{{
			"lifecycle/state.go", "s.AttemptStartTime = earliestTime(s.AttemptStartTime, snapshot.OldestPodTime)", "",
		}},
	}, {
		name: "the pods of a resize count after its user takes it back", sequence: "a user takes back a resize of",
		edits: []edit{{"lifecycle/evidence.go", "w.excludeReplacedPods(m.replacedPods)", "w.excludeReplacedPods(nil)"}},
	}, {
		name: "ranks of a resize are replaced after its user takes it back", sequence: "a user takes back a resize while",
		edits: []edit{{"lifecycle/evidence.go", "setIf(&out.RollingOut, w.hasReplacedRank(m.replacedPods))", ""}},
	}, {
		name:     "a start timeout expires by the cache of the pods",
		sequence: "a late cache of the pods when the start timeout",
		edits: []edit{{
			"lifecycle/phase.go", "max(s.Observed.ReadyPods, s.Observed.ReportedReadyPods)", "s.Observed.ReadyPods",
		}},
	}, {
		name:     "a schedule timeout expires by the cache of the pods",
		sequence: "a late cache of the pods when the schedule timeout",
		edits:    []edit{{"lifecycle/placement.go", "snapshot.Members.allReadyOrSucceeded() || p.Bound", "p.Bound"}},
	}, {
		name: "failed pods of an attempt with a ready pod are of the attempt before", sequence: "a pod is evicted within",
		edits: []edit{{"lifecycle/restart.go", " || snapshot.Members.anyReady()", ""}},
	}, {
		name: "pods with the label of the gang block a restart", sequence: "a single Job has the label of",
		edits: []edit{{"controller/observe.go", " || !g.hasMemberName(owner)", ""}},
	}, {
		name: "a pod is untracked only after its suspension is permitted", sequence: "a master is drained while a policy",
		edits: []edit{{"controller/status.go", "if isPrimary {\n\t\t\tr.untrack", "if false {\n\t\t\tr.untrack"}},
	}, {
		name: "a pod is not untracked while Rollcall cannot resume a member", sequence: "a launcher is drained before",
		edits: []edit{{
			"controller/job_status.go", "|| next.Active() && g.memberStates.AnySuspended()", "",
		}},
	}, {
		name: "the pods of deleted members are never stuck", sequence: "a member is recreated next to its pod",
		edits: []edit{{"lifecycle/evidence.go", "if o.StuckPod == nil {", "if false {"}},
	}, {
		name: "pods are deleted before the end of their Job is permitted", sequence: "a policy denies the end of",
		edits: []edit{{"controller/actions.go", "if isSpecChangeDue(g, m, s) {", "if false {"}},
	}, {
		name: "a gang runs since its first pod", sequence: "the Jobs of a gang are resumed one after",
		edits: []edit{{"lifecycle/evidence.go", "if oldest.After(out) {", "if out.IsZero() || oldest.Before(out) {"}},
	}, {
		name: "a gang starts before all members have pods", sequence: "workers are resumed after the start timeout",
		edits: []edit{{"lifecycle/evidence.go", "if oldest.IsZero() && !o.HasResult() {", "if false {"}},
	}, {
		name: "Jobs that a user resumes are resumed at once", sequence: "a worker exits without its master, which",
		edits: []edit{{"failure/earlier_attempt.go", "if c.ResumedApart {", "if false {"}},
	}, {
		name: "the time of a resumption is exact", sequence: "a rank exits a second after a user resumed",
		edits: []edit{{"failure/earlier_attempt.go", "if c.ResumedApart {", "if true {"}},
	}, {
		name: "a resize is one that the controller of the set has observed", sequence: "a user takes back a resize that",
		edits: []edit{{
			"lifecycle/rollout.go", "isRolledOut := w.StatefulSet != nil && isOutdatedByStatus",
			"isRolledOut := w.StatefulSet != nil && !hasTwoRevisions(w.StatefulSet) && isOutdatedByStatus",
		}},
	}, {
		name: "a set replaces its pods before its controller observed the spec", sequence: "a pod is deleted after a user",
		edits: []edit{{
			"lifecycle/rollout.go", "w.StatefulSet != nil && isOutdatedByStatus", "w.StatefulSet != nil && isOutdated",
		}},
	}, {
		name: "a rollout ends with a resize", sequence: "a user takes back a rollout and a resize",
		edits: []edit{{
			"lifecycle/rollout.go", "w.StatefulSet != nil && isOutdatedByStatus",
			"w.StatefulSet != nil && !w.isResizing() && isOutdatedByStatus",
		}},
	}, {
		name: "times of Jobs are exact", sequence: "a rank exits after its Jobs were resumed in",
		edits: []edit{{"failure/earlier_attempt.go", "tolerance = clockTolerance", "tolerance = 0"}},
	}, {
		name: "a pod from before a Job was resumed starts the gang", sequence: "a master fails alone and is suspended",
		edits: []edit{{"lifecycle/evidence.go", "w.Job == nil || o.HasResult() ||", "w.Job == nil || true ||"}},
	}, {
		name: "a running pod may precede the start of its Job", sequence: "a worker exits before the Job controller writes",
		edits: []edit{{"lifecycle/evidence.go", "return hasEnded && (", "return (hasEnded || true) && ("}},
	}, {
		name: "only the creation of a pod decides about a resumption", sequence: "a worker exits in the second before",
		edits: []edit{{"failure/earlier_attempt.go", "if exitTime.Before(c.ResumeTime) {", "if false {"}},
	}, {
		name: "a pod that failed replaced no other", sequence: "the pod that replaced a drained one fails",
		edits: []edit{{
			"lifecycle/replaced_pods.go", "case !isReplacement(pod, readyTime):",
			"case !isReplacement(pod, readyTime), pod.Status.Phase == corev1.PodFailed:",
		}},
	}, {
		name: "a complete Job hides when its peers were resumed", sequence: "a rank fails before its peer completes, while",
		edits: []edit{{
			"lifecycle/members.go", "case m.Observed.StartTime.IsZero()",
			"case m.Observed.Complete, m.Observed.StartTime.IsZero()",
		}},
	}, {
		name: "the pods of a restart are replaced for the user", sequence: "the first failure of a StatefulSet is reported",
		edits: []edit{{"lifecycle/rollout.go", "isRequested && !w.IsSuspended()", "true || isRequested"}},
	}, {
		name: "pods that are deleted during a resize are replaced for the user", sequence: "a pod is deleted before a denied",
		edits: []edit{{
			"lifecycle/rollout.go", "isRequested && !w.IsSuspended()", "(true || isRequested) && !w.IsSuspended()",
		}},
	}, {
		name: "only the pods of the first member are untracked", sequence: "all workers are drained while a policy denies",
		edits: []edit{{
			"controller/job_status.go", "	for _, m := range g.Members {\n		g.pass",
			"	for _, m := range g.Members[:1] {\n		g.pass",
		}},
	}}
}
