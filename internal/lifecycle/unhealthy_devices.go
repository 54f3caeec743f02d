package lifecycle

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// unhealthyPeriod is how long a device must be unhealthy before it is a failure. Device plugins report errors from
// which a device recovers.
const unhealthyPeriod = 10 * time.Second

// observeDevices returns since when pods have had an unhealthy device, if they have had it for [unhealthyPeriod].
// nextCheckTime is when the next pod will; zero if no other pod has such a device. A kubelet does not report a time, so
// the period starts when this process observes the device.
func (m *Memory) observeDevices(e Evidence) (unhealthy map[types.UID]time.Time, nextCheckTime time.Time) {
	observed := map[types.UID]time.Time{}
	unhealthy = map[types.UID]time.Time{}
	for _, w := range e.Workloads {
		names := trainingContainers(w.Gang)
		for i := range w.Pods {
			p := &w.Pods[i]
			if !failure.HasUnhealthyDevice(p, names) {
				continue
			}
			since, isKnown := m.unhealthyPods[p.UID]
			if !isKnown {
				since = e.Now
			}
			observed[p.UID] = since
			if due := since.Add(unhealthyPeriod); due.After(e.Now) {
				nextCheckTime = earliestTime(nextCheckTime, due)
			} else {
				unhealthy[p.UID] = since
			}
		}
	}
	m.unhealthyPods = observed
	return unhealthy, nextCheckTime
}

func trainingContainers(g gang.Gang) []string {
	var out []string
	for _, c := range g.Containers {
		out = append(out, c.Name)
	}
	return out
}
