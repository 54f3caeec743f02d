package simulation

import (
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// reviewedSequences are findings of a second review of the decisions. Random scenarios do not contain them, or the
// oracle cannot tell what has to happen.
func reviewedSequences() []sequence {
	return []sequence{{
		name: "the workers of a gang that never restarts complete after they were suspended", shape: masterJobs,
		incidents: []Incident{
			at(60, userSuspends, 1), at(90, userResumes), at(300, rankSucceeds, 1), at(300, rankSucceeds, 2),
			at(400, rankSucceeds, 0),
		},
		change: func(s *Scenario) {
			s.RestartPolicy, s.PodRestartPolicy, s.Behavior.AbortsWithoutPeers = "never", "OnFailure", true
		},
		want: wantedEnd{phase: lifecycle.Succeeded},
	}, {
		name: "a rank exits a second after its start by a clock that is ahead", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankExits, 1, 1), at(62.5, rankExits, 1, 1)},
		change: func(s *Scenario) {
			s.ManagerSkew, s.Behavior.SIGTERMDelay = 1900*time.Millisecond, 100*time.Millisecond
		},
		want: wantedEnd{restarts: 2},
	}, {
		name: "a rank exits before the cache shows that a user resumed its StatefulSet", shape: launcher,
		incidents: []Incident{
			at(60, userSuspends, 0), at(60, userSuspends, 1), at(70, userResumes), at(75, rankExits, 1, 1),
		},
		change: func(s *Scenario) { s.Late = []lateStream{late("rollcall-0/statefulsets", 69.9, 84)} },
		want:   wantedEnd{restarts: 1},
	}, {
		name: "a user takes back a resize while pods terminate", shape: oneStatefulSet,
		incidents: []Incident{at(60, setResized, 0, 1), at(70, setResized, 0, 3)},
		change:    func(s *Scenario) { s.Behavior.SIGTERMDelay = 20 * time.Second },
	}, {
		name: "a user takes back a resize of a gang that never restarts", shape: oneStatefulSet,
		incidents: []Incident{at(60, setResized, 0, 1), at(70, setResized, 0, 3)},
		change: func(s *Scenario) {
			s.Elastic, s.RestartPolicy, s.Behavior.SIGTERMDelay = "1:6", "never", 20*time.Second
		},
	}, {
		name: "a late cache of the pods when the start timeout expires", shape: masterJobs,
		incidents: []Incident{at(60, userSuspends, 0), at(60, userSuspends, 1), at(80, userResumes)},
		change: func(s *Scenario) {
			s.MaxRestarts, s.StartTimeout = 0, time.Minute
			startLate(70, 135)(s)
			s.Late = append(s.Late, late("rollcall-0/pods", 133, 148))
		},
	}, {
		name: "a late cache of the pods when the schedule timeout expires", shape: masterJobs,
		incidents: []Incident{at(60, rankExits, 1, 1), at(62, nodesFull, 0, 1), at(115, nodesFree)},
		change: func(s *Scenario) {
			s.ScheduleTimeout, s.Behavior.SIGTERMDelay = time.Minute, 3*time.Second
			s.Late = []lateStream{late("rollcall-0/pods", 124, 136)}
		},
		want: wantedEnd{restarts: 1},
	}, {
		name: "a pod is evicted within seconds of a later attempt, and the cache of the pods is late", shape: masterJobs,
		incidents: []Incident{at(60, rankExits, 1, 1), at(64, podEvicted, 0, 1)},
		change: func(s *Scenario) {
			s.PodRestartPolicy, s.Behavior.AbortsWithoutPeers = "OnFailure", true
			s.Behavior.SIGTERMDelay = 100 * time.Millisecond
			s.Late = []lateStream{late("rollcall-0/pods", 61.05, 75)}
		},
		want: wantedEnd{restarts: 1, disruptions: 1},
	}, {
		name: "a single Job has the label of a gang that restarts", shape: masterJobs,
		incidents: []Incident{at(50, singleJobComes), at(60, rankExits, 1, 1)},
		want:      wantedEnd{restarts: 1},
	}, {
		name: "a master is drained while a policy denies its suspension", shape: masterJobs,
		incidents: []Incident{at(55, writesDenied, 0), at(60, podEvicted), at(200, writesAllowed)},
		change:    completeOnDrain,
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "a launcher is drained before a policy permits its workers to be resumed", shape: launcher,
		incidents: []Incident{
			at(60, rankExits, 1, 1), at(60.8, writesDenied, 1), at(90, podEvicted), at(200, writesAllowed),
		},
		change: completeOnDrain,
		want:   wantedEnd{restarts: 1},
	}, {
		name: "a member is recreated next to its pod on a lost node", shape: masterJobs,
		incidents: []Incident{at(60, nodeLost, 1), at(65, memberDeleted, 1), at(70, memberCreated)},
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "workers are recreated next to a pod on a lost node", shape: launcher,
		incidents: []Incident{at(60, nodeLost, 1), at(65, memberDeleted, 1), at(70, memberCreated)},
		want: wantedEnd{
			phase: lifecycle.Restarting, disruptions: 1, reason: gang.ReasonPodStuckTerminating, end: lifecycle.Restarting,
		},
	}, {
		name: "a policy denies the end of a member whose pods are deleted", shape: masterJobs,
		incidents: []Incident{at(55, memberDenied, 1), at(60, rankExits, 0, 1), at(400, writesAllowed)},
		change:    func(s *Scenario) { s.MaxRestarts, s.CleanPodPolicy = 0, "all" },
		want:      wantedEnd{phase: lifecycle.Failed, end: lifecycle.Failed},
	}}
}

// completeOnDrain lets ranks exit with code 0 two seconds after SIGTERM, while a manager observes everything in time.
func completeOnDrain(s *Scenario) {
	s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay, s.ObservesDrains = 0, 2*time.Second, true
}
