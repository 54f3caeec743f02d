package simulation

import (
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// resumedSequences are findings of reviews of the fixes for [reviewedSequences]: members that are resumed one after the
// other, pods that somebody deletes while a StatefulSet replaces others, and what follows while a policy denies a
// restart or the end of a member.
func resumedSequences() []sequence {
	return []sequence{{
		name: "the members of a gang that never restarts are resumed one after the other", shape: launcher,
		incidents: resumeWorkersFirst(at(130, rankExits, 1, 1), at(200, userResumes)),
		change:    func(s *Scenario) { s.RestartPolicy = "never" },
	}, {
		name: "the Jobs of a gang are resumed one after the other", shape: masterJobs,
		incidents: resumeWorkersFirst(at(130, rankExits, 1, 1), at(200, userResumes)),
		change: func(s *Scenario) {
			runAgainInPod(s)
			s.Late = []lateStream{late("rollcall-0/jobs", 199, 210)}
		},
	}, {
		name: "a worker exits without its master, which is resumed a second later", shape: masterJobs,
		incidents: resumeWorkersFirst(at(101.2, rankExits, 1, 1), at(102.1, userResumes)),
		change:    runAgainInPod,
	}, {
		name: "workers are resumed after the start timeout of their launcher", shape: launcher,
		incidents: suspendBoth(at(100, memberResumed, 0), at(200, userResumes)),
		change: func(s *Scenario) {
			s.MaxRestarts, s.StartTimeout = 0, time.Minute
			startLate(195, 230)(s)
		},
	}, {
		name: "a rank fails before its peer completes, while no manager runs", shape: equalJobs,
		incidents: suspendBoth(
			at(90, managerCrashes), at(100, userResumes),
			at(120, rankExits, 1, 1), at(130, rankSucceeds), at(160, managerStarts),
		),
		change: runAgainInPod,
		want:   wantedEnd{phase: lifecycle.Failed, end: lifecycle.Failed},
	}, {
		name: "the first failure of a StatefulSet is reported during its restart", shape: oneStatefulSet,
		incidents: []Incident{at(58.9, rankExits, 1, 99), at(60.5, rankExits, 0, 1)},
		change: func(s *Scenario) {
			s.NonRetriable, s.Behavior.SIGTERMDelay = "99", 20*time.Second
			s.Late = []lateStream{late("kubelet/node-1/status", 58.5, 65)}
		},
		want: wantedEnd{phase: lifecycle.Failed, restarts: 1, end: lifecycle.Failed},
	}, {
		name: "a pod is deleted before a denied resize is taken back", shape: oneStatefulSet,
		incidents: []Incident{
			at(54, resizesDenied, 0, 403), at(60, podDeleted, 1), at(60.01, setResized, 0, 4), at(60.4, setResized, 0, 3),
		},
		change: func(s *Scenario) { s.Behavior.SIGTERMDelay = 20 * time.Second },
		want:   wantedEnd{disruptions: 1},
	}, {
		name: "a pod is deleted before a resize is taken back, and the cache is late", shape: oneStatefulSet,
		incidents: []Incident{at(60, podDeleted, 1), at(60.01, setResized, 0, 4), at(60.05, setResized, 0, 3)},
		change: func(s *Scenario) {
			s.Behavior.SIGTERMDelay = 20 * time.Second
			s.Late = []lateStream{late("rollcall-0/statefulsets", 60.03, 64)}
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "all workers are drained while a policy denies the suspension of their master", shape: masterJobs,
		incidents: []Incident{at(55, writesDenied, 0), at(60, podEvicted, 1, 2), at(200, writesAllowed)},
		change:    completeOnDrain,
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "a user takes back a resize that adds a rank", shape: oneStatefulSet,
		incidents: []Incident{at(60, setResized, 0, 4), at(65, setResized, 0, 3)},
		change:    func(s *Scenario) { s.MaxDisruptions, s.Behavior.SIGTERMDelay = "0", 20*time.Second },
	}, {
		name: "peers complete after a drained rank while a policy denies the suspension", shape: oneJob,
		incidents: []Incident{
			at(55, writesDenied, 0), at(60, podEvicted, 1), at(63, rankSucceeds), at(63, rankSucceeds, 2),
			at(200, writesAllowed),
		},
		change: completeOnDrain,
		want:   wantedEnd{disruptions: 1},
	}, {
		name: "peers of an elastic Job complete after a drained rank, while a policy denies the suspension", shape: oneJob,
		incidents: []Incident{
			at(55, writesDenied, 0), at(60, podEvicted, 1), at(65, rankSucceeds), at(65, rankSucceeds, 2),
			at(200, writesAllowed),
		},
		change: func(s *Scenario) {
			completeOnDrain(s)
			s.Elastic, s.RestartPolicy = "1:4", "gang"
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a user takes back a rollout, and the cache is late", shape: oneStatefulSet,
		incidents: []Incident{at(60, setUpdated), at(65, setUpdated, 0, 1)},
		change: func(s *Scenario) { // no pass sees the new revision, so somebody seems to have deleted the pod
			s.Behavior.SIGTERMDelay, s.Late = 25*time.Second, []lateStream{late("rollcall-0/statefulsets", 60.02, 74)}
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a user takes back a rollout and a resize that no webhook injects", shape: oneStatefulSet,
		incidents: []Incident{
			at(60, setUpdated), at(80, webhookDown), at(85.02, setResized, 0, 4), at(93, webhookUp),
			at(93, setResized, 0, 3), at(93, setUpdated, 0, 1),
		},
		change: func(s *Scenario) {
			s.MaxDisruptions, s.Behavior.SIGTERMDelay = "0", 25*time.Second
			s.Late = []lateStream{late("rollcall-0/statefulsets", 92.9, 94.5)}
		},
	}, {
		name: "a pod is deleted after a user resumed its set, and the cache is late", shape: oneStatefulSet,
		incidents: []Incident{at(60, userSuspends), at(100, userResumes), at(103, podDeleted, 1)},
		change: func(s *Scenario) {
			s.Behavior.SIGTERMDelay, s.Late = 20*time.Second, []lateStream{late("rollcall-0/statefulsets", 100.02, 106)}
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a worker exits in the second before its master is resumed", shape: masterJobs,
		incidents: resumeWorkersFirst(at(100.8, rankExits, 1, 1), at(101.3, userResumes)),
		change:    func(s *Scenario) { s.RestartPolicy = "never" },
	}, {
		name: "a worker exits before the Job controller writes when its launcher was resumed", shape: launcher,
		incidents: suspendBoth(at(100, userResumes), at(103, rankExits, 1, 1)),
		change: func(s *Scenario) {
			s.Late = []lateStream{late("job-controller/requests", 100.05, 110), late("rollcall-0/jobs", 99, 106)}
		},
		want: wantedEnd{restarts: 1},
	}, {
		name: "a rank exits after its Jobs were resumed in two seconds", shape: masterJobs,
		incidents: suspendBoth(at(100.9, memberResumed), at(101.05, userResumes), at(101.9, rankExits, 0, 1)),
		change:    func(s *Scenario) { s.PodRestartPolicy, s.RestartPolicy = "OnFailure", "never" },
		want:      wantedEnd{phase: lifecycle.Failed, end: lifecycle.Failed},
	}, {
		name: "a master fails alone and is suspended once more before its workers are resumed", shape: masterJobs,
		incidents: suspendBoth(
			at(100, memberResumed), at(105, rankExits, 0, 1),
			at(110, userSuspends), at(120, memberResumed, 1), at(150, rankExits, 1, 1), at(200, userResumes),
		),
		change: func(s *Scenario) {
			s.RestartPolicy, s.Late = "never", []lateStream{late("rollcall-0/jobs", 199, 206)}
		},
	}, {
		name: "a rank is drained after its peers complete, while a policy denies the suspension", shape: oneJob,
		incidents: []Incident{
			at(55, writesDenied, 0), at(60, rankSucceeds), at(60, rankSucceeds, 2), at(60.2, podEvicted, 1),
			at(200, writesAllowed),
		},
		change: func(s *Scenario) {
			completeOnDrain(s)
			s.Behavior.SIGTERMDelay = 500 * time.Millisecond
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a rank exits a second after a user resumed its gang, by a clock that is ahead", shape: launcher,
		incidents: suspendBoth(at(100.2, userResumes), at(101.3, rankExits, 1, 1)),
		change:    func(s *Scenario) { s.ManagerSkew = 1900 * time.Millisecond },
		want:      wantedEnd{restarts: 1},
	}, {
		name: "the pod that replaced a drained one fails before a manager runs", shape: oneJob,
		incidents: []Incident{
			at(60, managerCrashes), at(65, podEvicted, 1), at(90, rankExits, 1, 1), at(120, managerStarts),
		},
		change: func(s *Scenario) { s.IgnoresDisruptions, s.WithoutRules = true, true },
		want:   wantedEnd{disruptions: 1},
	}, {
		name: "the launcher of a failed gang is removed while no webhook answers", shape: launcher,
		incidents: []Incident{at(55, webhookDown), at(60, rankExits, 2, 99), at(120, webhookUp)},
		change:    failOnceAndRemoveSoon,
		want:      waitingForLauncher,
	}, {
		name: "the launcher of a failed gang is removed while a policy denies the end of its workers", shape: launcher,
		incidents: []Incident{at(55, memberDenied, 1), at(60, rankExits, 2, 99), at(200, writesAllowed)},
		change:    failOnceAndRemoveSoon,
		want:      waitingForLauncher,
	}, {
		name: "a launcher is created again before a policy permits the end of its workers", shape: launcher,
		incidents: []Incident{
			at(55, memberDenied, 1), at(60, rankExits, 1, 99), at(90, memberDeleted), at(100, memberCreated),
			at(200, writesAllowed),
		},
		change: func(s *Scenario) { s.NonRetriable = "99" },
		want:   wantedEnd{disruptions: 1},
	}, {
		name: "a launcher is created again when the webhook answers", shape: launcher,
		incidents: []Incident{
			at(55, webhookDown), at(60, rankExits, 1, 99), at(90, memberDeleted), at(120, webhookUp),
			at(120.01, memberCreated),
		},
		change: func(s *Scenario) { s.NonRetriable = "99" },
		want:   wantedEnd{disruptions: 1},
	}}
}

func failOnceAndRemoveSoon(s *Scenario) { s.NonRetriable, s.TTL = "99", 20*time.Second }

// waitingForLauncher is the end of workers that did not get the result of their gang. The removal of the launcher is
// a disruption, and a new launcher starts a new run.
var waitingForLauncher = wantedEnd{
	phase: lifecycle.Restarting, disruptions: 1, reason: gang.ReasonMembersMissing, end: lifecycle.Restarting,
}

// resumeWorkersFirst returns incidents that begin with the suspension of two members, of which the second is resumed.
func resumeWorkersFirst(then ...Incident) []Incident {
	return suspendBoth(append([]Incident{at(100, memberResumed, 1)}, then...)...)
}

// suspendBoth returns incidents that begin with the suspension of two members.
func suspendBoth(then ...Incident) []Incident {
	return append([]Incident{at(60, userSuspends, 0), at(60, userSuspends, 1)}, then...)
}

func runAgainInPod(s *Scenario) { s.PodRestartPolicy = "OnFailure" }
