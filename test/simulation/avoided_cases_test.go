package simulation

import (
	"time"

	"rollcall.training/internal/lifecycle"
)

// avoidingNodes changes a scenario to a gang that avoids nodes, on a number of nodes.
func avoidingNodes(nodes int, change ...func(*Scenario)) func(*Scenario) {
	return func(s *Scenario) {
		s.AvoidsNodes, s.NodeSkews = true, make([]time.Duration, nodes)
		for _, c := range change {
			c(s)
		}
	}
}

// avoidedNodeSequences are sequences of nodes on which ranks fail.
func avoidedNodeSequences() []sequence {
	return []sequence{{
		name: "a node on which ranks failed first twice is avoided", shape: oneJob,
		incidents: []Incident{at(60, nodeBreaks, 1)},
		change:    avoidingNodes(2),
		want:      wantedEnd{restarts: 2, text: "avoids node-1"},
	}, {
		name: "a node on which a rank failed first once is not avoided", shape: oneJob,
		incidents: []Incident{at(60, nodeBreaks, 0), at(80, nodeRepaired, 0)},
		change:    avoidingNodes(1),
		want:      wantedEnd{restarts: 1, attempt: 1},
	}, {
		name: "two Jobs avoid a node", shape: masterJobs,
		incidents: []Incident{at(60, nodeBreaks, 1)},
		change:    avoidingNodes(2),
		want:      wantedEnd{restarts: 2, text: "avoids node-1"},
	}, {
		name: "a lost node that returns is avoided", shape: oneJob,
		incidents: []Incident{
			at(60, nodeLost, 1), at(130, nodeReturns, 1), at(400, rankExits, 0, 1),
		},
		change: avoidingNodes(3),
		want:   wantedEnd{restarts: 1, disruptions: 1, text: "avoids node-1"},
	}, {
		name: "a rank fails twice after a lost node returned", shape: oneJob,
		incidents: []Incident{
			at(60, nodeLost, 1), at(130, nodeReturns, 1), at(400, rankExits, 1, 1), at(500, rankExits, 1, 1),
		},
		change: avoidingNodes(3),
		want:   wantedEnd{restarts: 2, disruptions: 1, text: "avoids node-1"},
	}, {
		name: "a Job in a queue avoids a lost node", shape: queuedJob,
		incidents: []Incident{
			at(5, queueAdmits), at(60, nodeLost, 1), at(130, nodeReturns, 1), at(400, queuePreempts), at(500, queueAdmits),
		},
		change: avoidingNodes(3),
		want:   wantedEnd{disruptions: 1, text: "avoids node-1"},
	}, {
		name: "a user suspends a gang that avoids a node", shape: oneJob,
		incidents: []Incident{
			at(60, nodeLost, 1), at(111, userSuspends), at(130, nodeReturns, 1), at(400, userResumes),
		},
		change: avoidingNodes(3),
		want:   wantedEnd{disruptions: 1, text: "avoids node-1"},
	}, {
		name: "a gang stops avoiding its only node", shape: oneJob,
		incidents: []Incident{at(60, nodeBreaks, 0), at(120, nodeRepaired, 0)},
		change:    avoidingNodes(1),
		want:      wantedEnd{restarts: 2, attempt: 3, text: "stops avoiding node node-0"},
	}, {
		name: "a gang with a start timeout stops avoiding its only node", shape: oneJob,
		incidents: []Incident{at(60, nodeBreaks, 0), at(120, nodeRepaired, 0)},
		change: avoidingNodes(1, func(s *Scenario) {
			s.StartTimeout, s.MaxRestarts = 2*time.Minute, 2
		}),
		want: wantedEnd{restarts: 2, attempt: 3, text: "stops avoiding node node-0"},
	}, {
		name: "a gang that stopped avoiding a node does not avoid it again", shape: oneJob,
		incidents: []Incident{at(60, nodeBreaks, 0), at(120, nodeRepaired, 0), at(1200, nodeBreaks, 0)},
		change:    avoidingNodes(1),
		want:      wantedEnd{phase: lifecycle.Failed, restarts: 3, end: lifecycle.Failed},
	}, {
		name: "a gang that avoids all nodes stops avoiding the oldest", shape: oneJob,
		incidents: []Incident{at(60, nodeLost, 1), at(130, nodeReturns, 1), at(300, nodeLost), at(400, nodeReturns)},
		change:    avoidingNodes(2),
		want:      wantedEnd{disruptions: 2, attempt: 3, text: "stops avoiding node node-1"},
	}, {
		name: "a gang restarts without the node of an unhealthy device", shape: oneJob,
		incidents: []Incident{at(60, deviceFails, 1), at(400, rankExits, 1, 1), at(500, rankExits, 1, 1)},
		change:    avoidingNodes(2),
		want:      wantedEnd{restarts: 2, disruptions: 1, text: "avoids node-"},
	}, {
		name: "a gang restarts because of an unhealthy device", shape: oneStatefulSet,
		incidents: []Incident{at(60, deviceFails, 1)},
		want:      wantedEnd{disruptions: 1, text: "DeviceUnhealthy"},
	}, {
		name: "a device is unhealthy for 15 seconds", shape: oneJob,
		incidents: []Incident{at(60, deviceFails, 1), at(75, deviceRecovers, 1)},
		change:    avoidingNodes(2),
		want:      wantedEnd{disruptions: 1, text: "DeviceUnhealthy"},
	}, {
		name: "a device recovers within seconds", shape: oneJob,
		incidents: []Incident{
			at(60, deviceFails, 1), at(68, deviceRecovers, 1), at(75, deviceFails, 1), at(82, deviceRecovers, 1),
		},
		change: avoidingNodes(2),
	}, {
		name: "a program exits because of its device", shape: oneJob,
		incidents: []Incident{at(60, deviceFails, 1), at(62, rankExits, 1, 1)},
		change:    avoidingNodes(2, withoutRestarts),
		want:      wantedEnd{disruptions: 1, text: "DeviceUnhealthy: container trainer exited with code 1"},
	}, {
		name: "a gang of a Job and a StatefulSet avoids no node", shape: launcher,
		incidents: []Incident{
			at(60, nodeLost, 1), at(130, nodeReturns, 1), at(400, podEvicted, 1), at(800, podEvicted, 1),
			at(1200, podEvicted, 1), at(1600, podEvicted, 1),
		},
		change: avoidingNodes(3),
		want:   wantedEnd{disruptions: 5, attempt: 5},
	}}
}
