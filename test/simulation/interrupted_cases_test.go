package simulation

import (
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// interruptedSequences are shrunk sequences of defects around a suspension or a lost node.
func interruptedSequences() []sequence {
	return []sequence{{
		name: "the master is drained while a user suspends the workers", shape: masterJobs,
		incidents: []Incident{at(60, userSuspends, 1), at(90, podEvicted), at(120, userResumes)},
		change: func(s *Scenario) {
			s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay = 0, 500*time.Millisecond
		},
		want: wantedEnd{attempt: 1},
	}, {
		name: "a peer of an unobserved disruption is reported after its node was lost", shape: launcher,
		incidents: []Incident{
			at(60, nodeLost, 1), at(63, managerCrashes), at(67, podEvicted, 3), at(136, managerStarts), at(160, nodeReturns, 1),
		},
		change: func(s *Scenario) {
			s.Seed = 12 // places one of the peers on the lost node, whose kubelet reports it before its pod is deleted
			s.Ranks, s.Behavior.SIGTERMExitCode, s.Behavior.AbortsWithoutPeers = 4, 1, true
		},
		want: wantedEnd{disruptions: 1},
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
	}}
}
