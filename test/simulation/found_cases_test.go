package simulation

import (
	"time"

	"rollcall.training/internal/lifecycle"
)

// foundSequences are shrunk sequences of defects that the simulation found; see docs/adr/0018-tests.md.
func foundSequences() []sequence {
	return []sequence{{
		name: "a pod is deleted after a StatefulSet with OnDelete was updated", shape: oneStatefulSet,
		incidents: []Incident{
			at(60, setUpdated), at(80, podDeleted, 0), at(90, podDeleted, 1), at(100, podDeleted, 2), at(300, podDeleted, 1),
		},
		change: func(s *Scenario) { s.ReplacesOnDelete = true },
		want:   wantedEnd{disruptions: 1},
	}, {
		name: "a late cache contains a pod that a complete rollout has replaced", shape: oneStatefulSet,
		incidents: []Incident{at(60, setResized, 0, 2)},
		change:    func(s *Scenario) { s.Late = []lateStream{late("rollcall-0/pods", 60.1, 66)} },
	}, {
		name: "a user starts one of two Jobs again next to a failed pod of the run before", shape: masterJobs,
		incidents: []Incident{at(60, podEvicted, 3, 2), at(300, memberDeleted, 1), at(320, memberCreated)},
		change: func(s *Scenario) {
			s.ActiveDeadline, s.CleanPodPolicy, s.WithoutRules = 150*time.Second, "none", true
			s.Behavior.SIGTERMExitCode, s.Behavior.AbortsWithoutPeers = 0, true
		},
		want: wantedEnd{phase: lifecycle.Failed, restarts: 1, end: lifecycle.Failed},
	}, {
		name: "a late cache shows a lost node after the gang was suspended and resumed", shape: oneJob,
		incidents: []Incident{at(60, nodeLost, 1), at(111, userSuspends), at(114, userResumes)},
		change: func(s *Scenario) {
			s.Late = []lateStream{late("rollcall-0/pods", 109, 111), late("rollcall-0/pods", 111, 118)}
		},
	}, {
		name: "a resize removes a rank that has succeeded", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankSucceeds, 2), at(90, setResized, 0, 1)},
	}, {
		name: "a pod that its Job replaced succeeds while no manager runs", shape: oneJob,
		incidents: []Incident{
			at(60, managerCrashes), at(61, podEvicted, 1), at(110, rankSucceeds, 1), at(112, managerStarts),
		},
		change: func(s *Scenario) { s.IgnoresDisruptions = true },
		want:   wantedEnd{disruptions: 1},
	}, {
		name: "a rank of a StatefulSet is drained after it succeeded and failed again", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankSucceeds, 1), at(200, podEvicted, 1)},
		change:    func(s *Scenario) { s.Behavior.FailsWhenRunAgain = true },
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "a gang restarts after a rank of its StatefulSet succeeded and failed again", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankSucceeds, 1), at(200, podEvicted, 2)},
		change:    func(s *Scenario) { s.Behavior.FailsWhenRunAgain = true },
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "a rank of a StatefulSet succeeds, and fails when its kubelet runs it again", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankSucceeds, 1)},
		change:    func(s *Scenario) { s.Behavior.FailsWhenRunAgain, s.Behavior.AbortsWithoutPeers = true, true },
	}, {
		name: "a StatefulSet has its next pods within a second, and a rank succeeds and fails again", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankStalls, 2), at(180, rankSucceeds, 1)},
		change:    func(s *Scenario) { s.Behavior.FailsWhenRunAgain = true },
		want:      wantedEnd{restarts: 1},
	}, {
		name: "a pod is deleted while no manager runs, without restart rules", shape: oneJob,
		incidents: []Incident{at(180, managerCrashes), at(200, podDeleted, 1), at(213, managerStarts)},
		change: func(s *Scenario) {
			s.WithoutRules, s.MaxRestarts = true, 0
			s.Behavior.AbortsWithoutPeers, s.Behavior.SIGTERMDelay = true, 5*time.Second
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a drained rank completes after its Job replaced it while no manager runs, and its peers abort", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podEvicted, 1, 1), at(90, managerStarts)},
		change: func(s *Scenario) {
			completeAfterReplacement(s)
			s.Behavior.AbortsWithoutPeers = true
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a rank fails before all ranks were ready, and the cache of the pods is late", shape: oneJob,
		incidents: []Incident{at(0, nodesFull, 0, 2), at(20, rankSucceeds, 0), at(30, rankExits, 1, 1), at(80, nodesFree)},
		change: func(s *Scenario) {
			s.WithoutRules, s.Late = true, []lateStream{late("rollcall-0/pods", 29.9, 45)}
		},
		want: wantedEnd{restarts: 1},
	}, {
		name: "a drained rank of an elastic Job completes after the Job replaced it while no manager runs", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podEvicted, 1, 1), at(90, managerStarts)},
		change: func(s *Scenario) {
			completeAfterReplacement(s)
			s.Behavior.AbortsWithoutPeers = true
			s.Elastic, s.RestartPolicy = "1:4", "gang"
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a drained rank completes after its Job replaced it while no manager runs", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podEvicted, 1, 1), at(90, managerStarts)},
		change:    completeAfterReplacement,
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "a queue resumes a Job with a completed rank while the webhook is down", shape: queuedJob,
		incidents: []Incident{
			at(5, queueAdmits), at(60, rankSucceeds, 2), at(70, webhookDown), at(80, podEvicted, 1, 1), at(140, webhookUp),
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "a Job deletes its pods before it reports its deadline", shape: masterJobs,
		change: func(s *Scenario) {
			s.ActiveDeadline = 100 * time.Second
			s.Late = []lateStream{late("job-controller/requests", 100.05, 110)}
		},
		want: wantedEnd{phase: lifecycle.Failed, end: lifecycle.Failed},
	}, {
		name: "a gang with a stranger waits for a lost node", shape: launcher,
		incidents: []Incident{at(58, strangerComes), at(61, nodeLost), at(500, nodeReturns)},
		change:    func(s *Scenario) { s.NodeSkews = []time.Duration{0} },
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "a user resumes a Job before its template has the number of the attempt", shape: oneJob,
		incidents: []Incident{at(60, userSuspends), at(62.5, userResumes)},
		change: func(s *Scenario) {
			s.Behavior.SIGTERMDelay = 20 * time.Second
			s.Late = []lateStream{late("rollcall-0/jobs", 60.1, 64)}
		},
	}}
}

// completeAfterReplacement lets a deleted pod exit with code 0 immediately after its Job has created another pod for
// the rank, which the Job does 10 seconds after the deletion. The Job controller observes the success before it counts
// the deleted pod as failed. It then has one pod too many, and deletes that of any rank.
func completeAfterReplacement(s *Scenario) {
	s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay = 0, 10100*time.Millisecond
	s.Late = []lateStream{late("job-controller/pods", 70, 71.5)}
}
