package simulation

import (
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// interruptedSequences are shrunk sequences of defects around a suspension, a lost node or a drained rank.
func interruptedSequences() []sequence {
	return []sequence{{
		name: "the workers are drained a moment after their master", shape: masterJobs,
		incidents: []Incident{at(60, podEvicted, 0, 3)},
		change: func(s *Scenario) {
			s.Seed, s.ObservesDrains = 2, true // without a fix, the workers complete if they are evicted after 25 to 160 ms
			s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay = 0, 3*time.Second
			s.Late = []lateStream{late("drain", 60, 60.06)}
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "the master is drained while a user suspends the workers", shape: masterJobs,
		incidents: []Incident{at(60, userSuspends, 1), at(90, podEvicted), at(120, userResumes)},
		change: func(s *Scenario) {
			s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay = 0, 500*time.Millisecond
		},
		want: wantedEnd{disruptions: 1, attempt: 2}, // the Job replaces the master for the attempt that was suspended
	}, {
		name: "a master that its Job replaced while the workers were suspended fails", shape: masterJobs,
		incidents: []Incident{at(60, userSuspends, 1), at(90, podEvicted), at(120, userResumes), at(300, rankExits, 0, 3)},
		change:    func(s *Scenario) { s.WithoutRules = true },
		want:      wantedEnd{restarts: 1, disruptions: 1},
	}, {
		name: "suspended workers are created again while a pod of the master terminates", shape: equalJobs,
		incidents: []Incident{
			at(60, userSuspends, 1), at(90, podEvicted), at(93, memberDeleted, 1), at(96, memberCreated, 1),
			at(300, userResumes),
		},
		change: func(s *Scenario) {
			s.Behavior.SIGTERMDelay, s.Behavior.AbortsWithoutPeers = 7*time.Second, true
			s.Late = []lateStream{late("programs/abort", 97, 100)}
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a queue resumes a Job before the end of its pods is confirmed", shape: queuedJob,
		incidents: []Incident{at(5, queueAdmits), at(60, queuePreempts), at(67.5, queueAdmits)},
		change: func(s *Scenario) {
			s.NodeSkews = []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second}
			s.Behavior.SIGTERMDelay, s.Behavior.AbortsWithoutPeers = 7*time.Second, true
			s.Late = []lateStream{late("kubelet/node-0/pods", 60, 61.5), late("job-controller/requests", 67.2, 71)}
		},
		want: wantedEnd{attempt: 1},
	}, {
		name: "a drained rank completes after its Job replaced it, and a failed peer is not replaced", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podDeleted, 1), at(120, managerStarts)},
		change: func(s *Scenario) {
			completeAfterReplacement(s)
			s.Behavior.AbortsWithoutPeers, s.WithoutRules = true, true
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a drained rank completes after its Job replaced it before all ranks were ready", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podEvicted, 1, 1), at(90, managerStarts)},
		change: func(s *Scenario) {
			completeAfterReplacement(s)
			s.Late = append(s.Late, late("kubelet/node-2/start", 0, 200)) // another rank is there
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a peer of an unobserved disruption is deleted and then reported", shape: launcher,
		incidents: []Incident{
			at(60, nodeLost, 1), at(63, managerCrashes), at(67, podEvicted, 3), at(140.3, managerStarts),
			at(150, nodeReturns, 1),
		},
		change: func(s *Scenario) {
			s.Ranks, s.Behavior.SIGTERMExitCode, s.Behavior.AbortsWithoutPeers = 4, 1, true
			s.WaitsForLostNodes, s.Late = true, []lateStream{late("rollcall-1/pods", 140.35, 145)}
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a rank fails, runs again in its pod, and succeeds before anybody sees it", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 0, 3), at(61.02, rankSucceeds)},
		change:    func(s *Scenario) { s.Late = []lateStream{late("kubelet/node-0/status", 60, 62)} },
		want:      wantedEnd{restarts: 1},
	}, {
		name: "ranks time out before their peer's node is found lost", shape: oneJob,
		incidents: []Incident{at(60, nodeLost, 1), at(300, nodeReturns, 1)},
		change:    func(s *Scenario) { s.Behavior.PeerTimeout = 35 * time.Second },
		want:      wantedEnd{disruptions: 1, text: "NodeLost"},
	}, {
		name: "a Job is resumed before it reports its suspension", shape: oneJob,
		incidents: []Incident{at(61.9, rankSucceeds, 2), at(62, userSuspends), at(65, userResumes)},
		change:    func(s *Scenario) { s.Late = []lateStream{late("job-controller/requests", 62.03, 68)} },
		want:      wantedEnd{attempt: 2},
	}, {
		name: "a gang that never restarts is resumed before its completed rank is reset", shape: oneJob,
		incidents: []Incident{at(60, rankSucceeds, 2), at(100, userSuspends), at(110, userResumes)},
		change: func(s *Scenario) {
			s.RestartPolicy, s.Late = "never", []lateStream{late("rollcall-0/jobs", 100.5, 115)}
		},
		want: wantedEnd{attempt: 2},
	}, {
		name: "a drained member completes before a deleted member is created again", shape: equalJobs,
		incidents: []Incident{at(60, memberDeleted, 1), at(63, podEvicted), at(64.5, memberCreated, 1)},
		change: func(s *Scenario) {
			s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay = 0, 200*time.Millisecond
			s.Late = []lateStream{late("rollcall-0/pods", 63, 68)}
		},
		want: wantedEnd{phase: lifecycle.Starting}, // a complete Job cannot run again
	}, {
		name: "the workers are created again before the launcher is complete", shape: launcher,
		incidents: []Incident{at(60, rankSucceeds), at(63, memberDeleted, 1), at(64, memberCreated, 1)},
		change: func(s *Scenario) {
			s.TTL, s.Late = 20*time.Second, []lateStream{late("job-controller/requests", 61.06, 70)}
		},
		want: wantedEnd{phase: lifecycle.Starting, reason: gang.ReasonMembersMissing, end: lifecycle.Starting},
	}, {
		name: "a pod is deleted before the start of its attempt is recorded", shape: queuedJob,
		incidents: []Incident{
			at(30, managerCrashes), at(34, queueAdmits), at(36, podDeleted, 2), at(37, managerStarts),
			at(37.001, crashInPass, 0, 2), at(90, managerStarts),
		},
		change: func(s *Scenario) {
			s.Behavior.AbortsWithoutPeers, s.Behavior.SIGTERMDelay = true, 8*time.Second
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a pod is deleted and gone before the cache shows that a queue resumed its Job", shape: queuedJob,
		incidents: []Incident{at(34, queueAdmits), at(38, podDeleted, 2)},
		change: func(s *Scenario) {
			s.Behavior.AbortsWithoutPeers, s.Behavior.SIGTERMDelay = true, 4*time.Second
			s.Late = []lateStream{late("rollcall-0/jobs", 33, 60)}
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a rank fails before the cache shows that a queue resumed its Job", shape: queuedJob,
		incidents: []Incident{at(34, queueAdmits), at(38, rankExits, 2, 3)},
		change: func(s *Scenario) {
			s.WithoutRules, s.Late = true, []lateStream{late("rollcall-0/jobs", 33, 60)}
		},
		want: wantedEnd{restarts: 1},
	}, {
		name: "a queue resumes a Job when its controller has just suspended it", shape: queuedJob,
		incidents: []Incident{at(5, queueAdmits), at(60, queuePreempts), at(61.9, queueAdmits)},
		change: func(s *Scenario) {
			s.Behavior.SIGTERMDelay = 4 * time.Second
			s.Late = []lateStream{late("job-controller/requests", 60, 61.8), late("rollcall-0/jobs", 60.1, 64)}
		},
		want: wantedEnd{attempt: 1},
	}, {
		name: "a queue resumes a Job next to a pod on a lost node that no controller saw terminate", shape: queuedJob,
		incidents: []Incident{
			at(0, queueAdmits), at(60, managerCrashes), at(62, queuePreempts), at(62.05, nodeLost), at(130, managerStarts),
			at(190, queueAdmits), at(600, nodeReturns),
		},
		change: func(s *Scenario) { s.Behavior.SIGTERMExitCode = -1 },
		want:   wantedEnd{attempt: 1},
	}, {
		name: "kube-controller-manager restarts before it has counted a failed pod", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 1), at(71.5, controllersRestart)},
		change: func(s *Scenario) {
			s.WithoutRules, s.Late = true, []lateStream{
				late("rollcall-0/pods", 60, 70.15), late("job-controller/requests", 70.03, 70.5),
				late("job-controller/requests", 71.125, 72.5),
			}
		},
		want: wantedEnd{restarts: 1},
	}, {
		name: "a pod of a deleted StatefulSet stays on a lost node, and has the name of a rank", shape: oneStatefulSet,
		incidents: []Incident{at(60, nodeLost, 1), at(200, memberDeleted), at(300, memberCreated)},
		want: wantedEnd{
			phase: lifecycle.Starting, reason: gang.ReasonPodStuckTerminating, end: lifecycle.Starting,
		},
	}}
}
