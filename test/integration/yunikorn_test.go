package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// The task groups of the gangs of newWorkloads, which their users set.
const (
	annotationTaskGroups = "yunikorn.apache.org/task-groups"

	taskGroups = `[{"name": "master", "minMember": 1, "minResource": {"nvidia.com/gpu": "3"}},
{"name": "worker", "minMember": 3, "minResource": {"nvidia.com/gpu": "3"}}]`
)

// TestYuniKorn places gangs as applications of YuniKorn.
func TestYuniKorn(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: schedulingNodes})
	if err := c.StartYuniKorn(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &placement{manager: &manager{installation.New(t, c)}, scheduler: gang.SchedulerYuniKorn}
	s.runInOrder(t, map[string]func(*testing.T, *placement){
		"RestartWhileAnotherWaits": testApplicationRestart,
		"Suspended":                testPlacedSuspended,
		"ReservationTimeout":       testReservationTimeout,
		"Writes":                   testPlacedWrites,
		"RandomOrders":             testPlacedRandomOrders,
	})
}

// testApplicationRestart checks that a gang that waits gets the nodes of a gang that restarts. The ranks of that gang
// then have no nodes until all of them can have one.
func testApplicationRestart(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	first := s.createGang(t, ns, s.newWorkloads("first")...)
	first.waitForPhase(lifecycle.Running, 0)
	second := s.createGang(t, ns, s.newWorkloads("second")...)
	second.waitForBound(0, placedRanks)
	second.checkUnbound()
	first.failContainer(first.getActivePod("worker-1"), 3)
	second.waitForPhase(lifecycle.Running, 0)
	first.waitForBound(0, placedRanks)
	first.checkUnbound()
	t.Logf("the waiting gang has %d placeholders with nodes", s.countPlaceholders(t, ns))
	second.deleteGang()
	first.waitForPhase(lifecycle.Running, 1)
	first.deleteGang()
}

// testReservationTimeout checks that a gang that holds only half of its nodes gives them back, which is a disruption,
// and runs later.
func testReservationTimeout(t *testing.T, s *placement) {
	setUnschedulable := func(unschedulable bool) {
		for _, node := range []string{"kwok-1", "kwok-2"} {
			s.setUnschedulable(t, node, unschedulable)
		}
	}
	setUnschedulable(true)
	r := s.createGang(t, s.createNamespace(t), s.newWorkloads("train", gang.AnnotationScheduleTimeout, "5s")...)
	wait.For(t, "two placeholders to have a node", func(context.Context) error {
		if n := s.countPlaceholders(t, r.ns); n != 2 {
			return fmt.Errorf("%d have a node", n)
		}
		return nil
	})
	waitForStatus := func(what string, isReached func(lifecycle.Status) bool) lifecycle.Status {
		var status lifecycle.Status
		wait.ForAtMost(t, 2*time.Minute, what, func(ctx context.Context) error {
			all, err := r.getWorkloads(ctx)
			if err != nil {
				return err
			}
			if status = lifecycle.ReadStatus(all[0]); !isReached(status) {
				return fmt.Errorf("the status is %+v", status)
			}
			return nil
		})
		return status
	}
	waitForStatus("the timeout", func(s lifecycle.Status) bool { return s.Disruptions+s.Restarts > 0 })
	setUnschedulable(false)
	status := waitForStatus("the gang to run", func(s lifecycle.Status) bool { return s.Phase == lifecycle.Running })
	if f := status.FirstFailure; status.Restarts > 0 || f == nil || f.Reason != "ResourceReservationTimeout" {
		t.Errorf("the gang used up %d restarts, and the first failure is %v", status.Restarts, f)
	}
	r.deleteGang()
}

// countPlaceholders returns the number of placeholder pods of YuniKorn in a namespace that have nodes.
func (s *placement) countPlaceholders(t *testing.T, ns string) (n int) {
	t.Helper()
	pods, err := s.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{
		LabelSelector: gang.LabelYuniKornApplication + ",!" + gang.LabelGang,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}
