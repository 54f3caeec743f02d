package simulation

import (
	"fmt"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// limitSequences are sequences of gangs with limits of disruptions and time, and with policies for their pods.
func limitSequences() []sequence {
	failed := wantedEnd{phase: lifecycle.Failed, end: lifecycle.Failed}
	disruptedOnce := failed
	disruptedOnce.disruptions = 1
	return []sequence{{
		name: "a gang is disrupted more often than permitted", shape: oneJob,
		incidents: []Incident{at(60, podEvicted, 1, 1), at(180, podEvicted, 2, 1)},
		change:    func(s *Scenario) { s.MaxDisruptions = "1" },
		want:      disruptedOnce,
	}, {
		name: "a master is drained more often than permitted, and exits with code 0", shape: masterJobs,
		incidents: []Incident{at(60, podEvicted, 0, 1), at(180, podEvicted, 0, 1)},
		change: func(s *Scenario) {
			s.MaxDisruptions, s.ObservesDrains = "1", true
			exitZero(s)
		},
		want: disruptedOnce,
	}, {
		name: "a failure does not count as a disruption", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 1)},
		change:    func(s *Scenario) { s.MaxDisruptions = "0" },
		want:      wantedEnd{restarts: 1},
	}, {
		name: "a gang gives back the nodes that it cannot use", shape: masterJobs,
		incidents: []Incident{at(0, nodesFull, 0, 2), at(80, nodesFree)},
		change:    func(s *Scenario) { s.ScheduleTimeout = time.Minute },
		want:      wantedEnd{disruptions: 1, text: failure.ReasonScheduleTimeout},
	}, {
		name: "a gang of a queue gives back the nodes that it cannot use", shape: queuedJob,
		incidents: []Incident{at(0, queueAdmits), at(0, nodesFull, 0, 2), at(80, nodesFree)},
		change:    func(s *Scenario) { s.ScheduleTimeout = time.Minute },
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "all pods of a gang that succeeded are deleted", shape: launcher,
		incidents: []Incident{at(60, rankSucceeds)},
		change:    func(s *Scenario) { s.CleanPodPolicy = string(gang.CleanPodPolicyAll) },
		want:      wantedEnd{phase: lifecycle.Succeeded},
	}, {
		name: "the pods of a stranger stay after the gang has failed", shape: masterJobs,
		incidents: []Incident{at(50, strangerComes), at(60, rankExits, 1, 1)},
		change: func(s *Scenario) {
			s.MaxRestarts, s.CleanPodPolicy = 0, string(gang.CleanPodPolicyAll)
		},
		want: wantedEnd{phase: lifecycle.Failed, end: lifecycle.Failed},
	}, {
		name: "the workers run on after their master", shape: masterJobs,
		incidents: []Incident{at(60, rankSucceeds)},
		change:    func(s *Scenario) { s.CleanPodPolicy = string(gang.CleanPodPolicyNone) },
		want:      wantedEnd{phase: lifecycle.Succeeded},
	}, {
		name: "a StatefulSet that succeeded runs on, and fails", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankExits, 1, 1)},
		change: func(s *Scenario) {
			s.CleanPodPolicy, s.Behavior.FailsWhenRunAgain = string(gang.CleanPodPolicyNone), true
		},
		want: wantedEnd{restarts: 1},
	}}
}

// rejectionSequences are sequences in which admission rejects requests.
func rejectionSequences() []sequence {
	var out []sequence
	for _, code := range []int{403, 422} {
		out = append(out, sequence{
			name:  fmt.Sprintf("24 a rank fails after a resize was denied with code %d (N8)", code),
			shape: oneStatefulSet,
			incidents: []Incident{
				at(50, resizesDenied, 0, code), at(60, setResized, 0, 5), at(120, rankExits, 1, 1),
			},
			want: wantedEnd{restarts: 1, text: "Event ResizeRejected"},
		})
	}
	return append(out, sequence{
		name: "a user resumes a gang before a policy permits its Service to change", shape: oneJob,
		incidents: []Incident{
			at(55, writesDenied, 2), at(60, userSuspends), at(75, userResumes), at(200, writesAllowed),
		},
		change: func(s *Scenario) { s.Behavior.SIGTERMDelay = 25 * time.Second },
		want:   wantedEnd{disruptions: 1, text: "Event RequestRejected"},
	}, sequence{
		name: "29 a policy denies the suspension of a member", shape: launcher,
		incidents: []Incident{at(55, writesDenied, 1), at(60, rankExits, 1, 1), at(200, writesAllowed)},
		want:      wantedEnd{restarts: 1, text: string(gang.ReasonRequestRejected)},
	})
}
