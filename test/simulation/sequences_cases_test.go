package simulation

import (
	"fmt"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// sequences returns all sequences. The numbers are those of the review.
func sequences() []sequence {
	var out []sequence
	for _, list := range [][]sequence{
		restartSequences(), crashSequences(), memberSequences(), completionSequences(), nodeSequences(),
		queueSequences(), rejectionSequences(), clockSequences(), foundSequences(), reviewedSequences(),
		interruptedSequences(), avoidedNodeSequences(), limitSequences(), resumedSequences(),
	} {
		out = append(out, list...)
	}
	return out
}

func withoutRestarts(s *Scenario) { s.MaxRestarts = 0 }

func restartSequences() []sequence {
	return []sequence{{
		name: "1 a rank exits", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 1)},
		want:      wantedEnd{restarts: 1},
	}, {
		name: "1 a rank fails together with its pod", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 1)},
		change:    func(s *Scenario) { s.WithoutRules = true },
		want:      wantedEnd{restarts: 1},
	}, {
		name: "2 an earlier failure is reported while the gang restarts", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 3)},
		change: func(s *Scenario) {
			s.Behavior.AbortsWithoutPeers, s.WithoutRules = true, true
			s.Late = []lateStream{
				late("programs/abort", 59, 62), late("kubelet/node-1/status", 59, 63), late("kubelet/node-2/status", 59, 66),
			}
		},
		want: wantedEnd{restarts: 1, text: "Restart 1 of 3: rank 1"},
	}, {
		name: "a rank stalls", shape: oneJob,
		incidents: []Incident{at(60, rankStalls, 1)},
		want:      wantedEnd{restarts: 1, text: "Restart 1 of 3: rank 1"},
	}, {
		name: "a rank of a StatefulSet stalls, and its kubelet reports late", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankStalls, 1)},
		change:    func(s *Scenario) { s.Late = []lateStream{late("kubelet/node-1/status", 64, 66)} },
		want:      wantedEnd{restarts: 1, text: "Stalled"},
	}, {
		name: "5 a user resumes a restarting gang", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 1), at(61, userResumes)},
		change:    func(s *Scenario) { s.Behavior.SIGTERMDelay = 8 * time.Second },
		want:      wantedEnd{restarts: 1},
	}, {
		name: "5 a user resumes a restarting gang without a webhook", shape: oneJob,
		incidents: []Incident{at(50, webhookDown), at(60, rankExits, 1, 1), at(61, userResumes), at(90, webhookUp)},
		change:    func(s *Scenario) { s.Behavior.SIGTERMDelay = 8 * time.Second },
		want:      wantedEnd{restarts: 1},
	}, {
		name: "6 a user suspends a restarting gang", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 1), at(62, userSuspends)},
		change:    func(s *Scenario) { s.Behavior.SIGTERMDelay = 8 * time.Second },
		want:      wantedEnd{phase: lifecycle.Suspended, restarts: 1, end: lifecycle.Suspended},
	}, {
		name: "a user resumes a gang whose pods terminate", shape: oneJob,
		incidents: []Incident{at(60, userSuspends), at(65, userResumes)},
		change:    func(s *Scenario) { s.Behavior.SIGTERMDelay = 8 * time.Second },
	}, {
		name: "a user resumes a gang next to a pod of a lost node", shape: oneJob,
		incidents: []Incident{at(60, nodeLost), at(70, userSuspends), at(80, userResumes), at(900, nodeReturns)},
		change:    func(s *Scenario) { s.Behavior.AbortsWithoutPeers = true },
	}, {
		name: "9 a pod of a StatefulSet is replaced while no manager runs", shape: oneStatefulSet,
		incidents: []Incident{at(60, managerCrashes), at(61, podForced, 1), at(80, managerStarts)},
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "10 a pod of a Job is replaced while no manager runs", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podDeleted, 1), at(90, managerStarts)},
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "10 a pod of a Job is replaced while no manager runs, and its peers abort", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podDeleted, 1), at(90, managerStarts)},
		change:    func(s *Scenario) { s.Behavior.AbortsWithoutPeers = true },
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "a kubelet terminates a rank, and its condition follows the exit", shape: oneJob,
		incidents: []Incident{at(60, podTerminated, 1, 2)},
		want:      wantedEnd{disruptions: 1, text: "TerminationByKubelet"},
	}, {
		name: "a kubelet terminates a rank that exits with code 0", shape: oneJob,
		incidents: []Incident{at(60, podTerminated, 1, 2)},
		change:    func(s *Scenario) { s.Behavior.SIGTERMExitCode = 0 },
		want:      wantedEnd{disruptions: 1, text: "TerminationByKubelet"},
	}, {
		name: "a stranger keeps a pod of a StatefulSet", shape: oneStatefulSet,
		incidents: []Incident{at(50, podHeld, 1), at(60, rankExits, 1, 1)},
		want: wantedEnd{
			phase: lifecycle.Restarting, restarts: 1, reason: gang.ReasonPodStuckTerminating, end: lifecycle.Restarting,
		},
	}, {
		name: "a stranger keeps a pod of a Job", shape: oneJob,
		incidents: []Incident{at(50, podHeld, 1), at(60, rankExits, 1, 1)},
		want:      wantedEnd{restarts: 1},
	}, {
		name: "a kubelet terminates a rank of a StatefulSet", shape: oneStatefulSet,
		incidents: []Incident{at(60, podTerminated, 1, 2)},
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "a Job that ignores disruptions replaces a pod while no manager runs", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podEvicted, 1), at(120, managerStarts)},
		change:    func(s *Scenario) { s.IgnoresDisruptions = true },
		want:      wantedEnd{disruptions: 1, text: "Unobserved"},
	}, {
		name: "a Job that ignores disruptions replaces a pod before the cache shows it", shape: oneJob,
		incidents: []Incident{at(60, podEvicted, 1)},
		change: func(s *Scenario) {
			s.IgnoresDisruptions, s.MaxRestarts, s.Behavior.AbortsWithoutPeers = true, 0, true
			s.Late = []lateStream{late("rollcall-0/pods", 59, 75)}
		},
		want: wantedEnd{disruptions: 1, text: "Unobserved"},
	}, {
		name: "a restart looks for the first failure next to pods that ended by a clock ahead", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1), at(180, podEvicted, 0)},
		change: func(s *Scenario) {
			s.WithoutRules, s.NodeSkews = true, []time.Duration{0, 3 * time.Second}
			s.Behavior.AbortsWithoutPeers = true
		},
		want: wantedEnd{restarts: 1, disruptions: 1},
	}}
}

// crashSequences are the sequences 3 and 4: the manager crashes before one of the writes of a restart.
func crashSequences() []sequence {
	var out []sequence
	for requests := range 12 {
		out = append(out, sequence{
			name:      fmt.Sprintf("3 and 4 the manager crashes after %d requests of a restart", requests),
			shape:     masterJobs,
			incidents: []Incident{at(60, crashInPass, 0, requests), at(60.1, rankExits, 1, 1), at(90, managerStarts)},
			want:      wantedEnd{restarts: 1, text: fmt.Sprintf("%-26s ends", "rollcall 0")},
		})
	}
	return out
}

func memberSequences() []sequence {
	return []sequence{{
		name: "7 a member is recreated while the gang runs", shape: masterJobs,
		incidents: []Incident{at(60, memberDeleted, 1), at(70, memberCreated)},
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "8 a member is recreated while the gang restarts", shape: masterJobs,
		incidents: []Incident{at(60, rankExits, 0, 1), at(61, memberDeleted, 1), at(80, memberCreated)},
		want:      wantedEnd{restarts: 1},
	}, {
		name: "11 a failed gang runs again", shape: launcher,
		incidents: []Incident{at(60, rankExits, 1, 1), at(120, memberDeleted), at(130, memberCreated)},
		change:    withoutRestarts,
	}, {
		name: "15 a worker joins the completed master of an earlier run", shape: masterJobs,
		incidents: []Incident{at(60, rankSucceeds), at(600, memberDeleted, 1), at(610, memberCreated)},
		want:      wantedEnd{phase: lifecycle.Starting, reason: gang.ReasonMembersMissing, end: lifecycle.Starting},
	}, {
		name: "a worker of an earlier run completes after the master was recreated", shape: masterJobs,
		incidents: []Incident{at(60, rankSucceeds), at(65, memberDeleted), at(68, memberCreated)},
		change:    func(s *Scenario) { s.Late = []lateStream{late("job-controller/jobs", 60, 75)} },
		want:      wantedEnd{phase: lifecycle.Starting, reason: gang.ReasonMembersMissing},
	}, {
		name: "18 a member is suspended, and the cache contains its pods first (N9)", shape: masterJobs,
		incidents: []Incident{at(60, userSuspends, 1), at(100, userResumes)},
		change: func(s *Scenario) {
			s.RestartPolicy = "never"
			s.Behavior.SIGTERMDelay = 8 * time.Second
			s.Late = []lateStream{late("rollcall-0/jobs", 59, 72)}
		},
	}, {
		name: "18 a member is suspended, and its peers abort", shape: masterJobs,
		incidents: []Incident{at(60, userSuspends, 1), at(100, userResumes)},
		change: func(s *Scenario) {
			s.RestartPolicy, s.Behavior.AbortsWithoutPeers = "never", true
		},
	}, {
		name: "26 a stranger comes before the first status (N13)", shape: masterJobs,
		incidents: []Incident{at(20, strangerComes), at(150, rankExits, 1, 1)},
		change:    startLate(0, 60),
		want:      wantedEnd{restarts: 1, reason: gang.ReasonMemberConflict},
	}}
}

// startLate returns a change of a scenario in which no container starts between two times in seconds.
func startLate(from, to float64) func(*Scenario) {
	return func(s *Scenario) {
		for i := range s.NodeSkews {
			s.Late = append(s.Late, late(fmt.Sprintf("kubelet/node-%d/start", i), from, to))
		}
	}
}

func completionSequences() []sequence {
	return []sequence{{
		name: "12 the master completes while the gang restarts", shape: masterJobs,
		incidents: []Incident{at(60, rankExits, 1, 1), at(60.06, rankSucceeds)},
		change:    func(s *Scenario) { s.Late = []lateStream{late("rollcall-0/pods", 60.06, 61)} },
		want:      wantedEnd{phase: lifecycle.Succeeded, restarts: 1},
	}, {
		name: "13 a worker fails after its master", shape: masterJobs,
		incidents: []Incident{at(60, rankSucceeds), at(60.3, rankExits, 1, 1)},
		want:      wantedEnd{phase: lifecycle.Succeeded},
	}, {
		name: "14 a worker fails before its master is reported (leftover 1)", shape: masterJobs,
		incidents: []Incident{at(60, rankSucceeds), at(60.2, rankExits, 2, 1)},
		change: func(s *Scenario) {
			s.MaxRestarts = 0 // the worker is not on the node of the master
			s.Late = []lateStream{late("rollcall-0/jobs", 60, 61), late("kubelet/node-0/status", 60, 61.5)}
		},
		want: wantedEnd{phase: lifecycle.Succeeded},
	}, {
		name: "19 a drained rank exits with code 0 while no manager runs (N10)", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podEvicted, 1, 1), at(80, managerStarts)},
		change:    exitZero,
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "22 a completed member is removed, and the other completes (N12)", shape: equalJobs,
		incidents: []Incident{at(60, rankSucceeds)},
		change:    removeSoon,
	}, {
		name: "22 another manager takes over after a completed member is removed", shape: equalJobs,
		incidents: []Incident{at(60, rankSucceeds), at(120, managerCrashes), at(130, managerStarts)},
		change:    removeSoon,
	}, {
		name: "23 a completed member is removed, and the other fails (N12)", shape: equalJobs,
		incidents: []Incident{at(60, rankSucceeds), at(300, rankExits, 1, 1)},
		change:    removeSoon,
		want:      wantedEnd{phase: lifecycle.Failed, end: lifecycle.Failed},
	}, {
		name: "27 all ranks are drained and exit with code 0 (N20)", shape: oneJob,
		incidents: []Incident{at(60, podEvicted, 0, 3)},
		change:    exitZero,
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "all ranks of a Job that needs two of three are drained and exit with code 0", shape: oneJob,
		incidents: []Incident{at(59.9, managerCrashes), at(60, podEvicted, 0, 3), at(60.2, managerStarts)},
		change: func(s *Scenario) {
			s.SucceededCount, s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay = 2, 0, 500*time.Millisecond
			s.Late = []lateStream{late("rollcall-1/pods", 60.22, 63), late("rollcall-1/jobs", 60.22, 63)} // one pass is in time
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "all ranks of a Job that needs two of three are drained while its manager runs", shape: oneJob,
		incidents: []Incident{at(60, podEvicted, 0, 3)},
		change:    func(s *Scenario) { s.SucceededCount, s.Behavior.SIGTERMExitCode = 2, 0 },
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "27 all ranks are drained during a failover and exit with code 0", shape: oneJob,
		incidents: []Incident{at(60, managerCrashes), at(61, podEvicted, 0, 3), at(80, managerStarts)},
		change:    exitZero,
		want:      wantedEnd{phase: lifecycle.Succeeded}, // docs/tasks/configure-completion.md
	}}
}

func exitZero(s *Scenario) { s.Behavior.SIGTERMExitCode = 0 }

func removeSoon(s *Scenario) { s.TTL = 20 * time.Second }

func nodeSequences() []sequence {
	return []sequence{{
		name: "16 a node of a Job is lost", shape: oneJob,
		incidents: []Incident{at(60, nodeLost, 1)},
		want:      wantedEnd{disruptions: 1},
	}, {
		name: "16 a node of a StatefulSet is lost", shape: oneStatefulSet,
		incidents: []Incident{at(60, nodeLost, 1)},
		want: wantedEnd{
			phase: lifecycle.Restarting, disruptions: 1, reason: gang.ReasonPodStuckTerminating, end: lifecycle.Restarting,
		},
	}, {
		name: "25 a Job fails with a pod on a lost node (N17)", shape: masterJobs,
		incidents: []Incident{at(80, nodeLost, 0)},
		change: func(s *Scenario) {
			s.ActiveDeadline, s.NodeSkews = 100*time.Second, []time.Duration{0, 0}
		},
		want: wantedEnd{phase: lifecycle.Failed, end: lifecycle.Failed},
	}, {
		name: "A1 a node is lost for a minute", shape: oneJob,
		incidents: []Incident{at(60, nodeLost), at(135, nodeReturns)},
		change: func(s *Scenario) {
			s.NodeSkews, s.WaitsForLostNodes = []time.Duration{0}, true
		},
	}, {
		name: "a gang restarts when a node is found lost", shape: oneJob,
		incidents: []Incident{at(60, nodeLost, 1), at(125, nodeReturns, 1)},
		want:      wantedEnd{disruptions: 1, attempt: 1, text: "NodeLost"},
	}, {
		name: "a node returns while the restart of its gang is denied", shape: oneJob,
		incidents: []Incident{
			at(60, nodeLost, 1), at(100, writesDenied, 0), at(115, nodeReturns, 1), at(130, writesAllowed, 0),
		},
		want: wantedEnd{disruptions: 1, attempt: 1, text: "NodeLost"},
	}, {
		name: "a node returns before a manager finds it lost", shape: oneJob,
		incidents: []Incident{at(60, nodeLost, 1), at(125, nodeReturns, 1)},
		change:    func(s *Scenario) { s.Late = []lateStream{late("rollcall-0/pods", 109, 127)} },
	}, {
		name: "a node restarts before it is lost", shape: oneJob,
		incidents: []Incident{at(60, nodeRestarts, 1, 20)},
		change:    func(s *Scenario) { s.MaxRestarts = 0 },
		want:      wantedEnd{disruptions: 1, attempt: 1, text: "Unknown"},
	}, {
		name: "a restart waits for a lost node", shape: oneJob,
		incidents: []Incident{at(60, nodeLost, 1)},
		change:    func(s *Scenario) { s.WaitsForLostNodes = true },
		want: wantedEnd{
			phase: lifecycle.Restarting, disruptions: 1, reason: gang.ReasonPodStuckTerminating, end: lifecycle.Restarting,
			text: gang.AnnotationRestartOnNodeLoss,
		},
	}, {
		name: "A3 a restart does not wait for a lost node", shape: oneJob,
		incidents: []Incident{at(60, nodeLost, 1), at(900, nodeReturns, 1)},
		want:      wantedEnd{disruptions: 1, text: "patch  Service"},
	}}
}

func queueSequences() []sequence {
	var preemptions []Incident
	for i := range 4 {
		t := 200 * float64(i+1)
		preemptions = append(preemptions, at(t-0.5, rankExits, 1, 1), at(t, queuePreempts), at(t+50, queueAdmits))
	}
	return []sequence{{
		name: "17 a queue preempts a gang with a failed pod (N2)", shape: queuedJob,
		incidents: append([]Incident{at(5, queueAdmits)}, preemptions...),
		change: func(s *Scenario) {
			s.WithoutRules = true
			for i := range 4 {
				t := 200 * float64(i+1)
				s.Late = append(s.Late, late("rollcall-0/pods", t-1, t+1))
			}
		},
		want: wantedEnd{attempt: 4}, // each eviction has a number in the logs
	}, {
		name: "20 a queue preempts a gang after a rank completed (N10)", shape: queuedJob,
		incidents: []Incident{at(5, queueAdmits), at(60, rankSucceeds, 2), at(70, queuePreempts), at(100, queueAdmits)},
		want:      wantedEnd{attempt: 1},
	}, {
		name: "21 a Job waits in a queue for an hour without a manager (N11)", shape: queuedJob,
		incidents: []Incident{at(0, managerCrashes), at(3600, queueAdmits), at(3630, managerStarts)},
		change: func(s *Scenario) {
			s.MaxRestarts, s.StartTimeout = 0, 30*time.Minute
			startLate(3590, 3660)(s)
		},
	}}
}

func clockSequences() []sequence {
	return []sequence{{
		name: "28 a peer exits on a node whose clock is behind (N21b)", shape: oneJob,
		incidents: []Incident{at(60, podEvicted, 0, 1)},
		change: func(s *Scenario) {
			s.Behavior.AbortsWithoutPeers, s.NonRetriable = true, "1-127"
			s.NodeSkews = []time.Duration{-3 * time.Second, -3 * time.Second}
		},
		want: wantedEnd{disruptions: 1},
	}, {
		name: "30 the clocks of two leaders differ", shape: oneJob,
		incidents: []Incident{
			at(60, rankExits, 1, 1), at(120, rankExits, 1, 1), at(121, managerCrashes), at(122, managerStarts),
			at(180, rankExits, 1, 1), at(181, managerCrashes), at(182, managerStarts),
		},
		change: func(s *Scenario) { s.ManagerSkew = 10 * time.Minute },
		want:   wantedEnd{restarts: 3},
	}, {
		name: "N21a the clock of the manager is ahead", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 1)},
		change: func(s *Scenario) {
			s.ManagerSkew, s.Behavior.SIGTERMExitCode = 2*time.Minute, -1
		},
		want: wantedEnd{restarts: 1},
	}, {
		name: "N21a the clock of the manager of a StatefulSet is ahead", shape: oneStatefulSet,
		incidents: []Incident{at(60, rankExits, 1, 1), at(100, rankExits, 1, 1)},
		change:    func(s *Scenario) { s.ManagerSkew = 2 * time.Minute },
		want:      wantedEnd{restarts: 2},
	}, {
		name: "N21c the clock of the API server is ahead", shape: oneJob,
		incidents: []Incident{at(60, rankExits, 1, 1)},
		change:    func(s *Scenario) { s.ManagerSkew, s.WithoutRules = -2*time.Minute, true },
		want:      wantedEnd{restarts: 1},
	}}
}
