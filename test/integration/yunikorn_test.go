package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
		"Suspended":                testApplicationSuspended,
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
	t.Logf("the waiting gang has %d placeholders, %d of them with nodes", s.countPlaceholders(t, ns, false),
		s.countPlaceholders(t, ns, true))
	second.deleteGang()
	first.waitForPhase(lifecycle.Running, 1)
	first.deleteGang()
}

// testApplicationSuspended checks that a gang that is resumed at once waits for all of its nodes.
func testApplicationSuspended(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	first := s.createGang(t, ns, s.newWorkloads("first")...)
	first.waitForPhase(lifecycle.Running, 0)
	second := s.createGang(t, ns, s.newWorkloads("second")...)
	second.waitForBound(0, placedRanks)
	for _, job := range first.jobs {
		first.patchJob(job, `{"spec":{"suspend":true}}`)
	}
	second.waitForPhase(lifecycle.Running, 0)
	for _, job := range first.jobs {
		first.patchJob(job, `{"spec":{"suspend":false}}`)
	}
	first.waitForBound(0, placedRanks)
	first.checkUnbound()
	second.deleteGang()
	first.waitForBound(placedRanks, placedRanks)
	first.deleteGang()
}

// testReservationTimeout checks that two gangs whose placeholders hold the nodes of each other both run in the end.
// YuniKorn shares the nodes between the queues of two namespaces, of which each gets a half.
func testReservationTimeout(t *testing.T, s *placement) {
	s.setUnschedulable(t, "kwok-2", true)
	defer s.setUnschedulable(t, "kwok-2", false)
	running := s.createGang(t, s.createNamespace(t), s.newWorkloads("running")...)
	running.waitForPhase(lifecycle.Running, 0)
	var gangs []*testGang
	for _, timeout := range []string{"10s", "30s"} {
		r := s.createGang(t, s.createNamespace(t), s.newWorkloads("train", gang.AnnotationScheduleTimeout, timeout)...)
		r.waitForBound(0, placedRanks)
		gangs = append(gangs, r)
	}
	for _, r := range gangs {
		wait.For(t, "the placeholders", func(context.Context) error {
			if n := s.countPlaceholders(t, r.ns, false); n != placedRanks {
				return fmt.Errorf("%d exist", n)
			}
			return nil
		})
	}
	running.deleteGang()
	var winner, other *testGang
	wait.ForAtMost(t, 2*time.Minute, "one gang to have all of its nodes", func(ctx context.Context) error {
		t.Logf("placeholders with nodes: %d and %d",
			s.countPlaceholders(t, gangs[0].ns, true), s.countPlaceholders(t, gangs[1].ns, true))
		for i, r := range gangs {
			if bound, _, err := r.countBound(ctx); err != nil || bound == placedRanks {
				winner, other = r, gangs[1-i]
				return err
			}
		}
		return errors.New("both wait")
	})
	winner.deleteGang()
	var status lifecycle.Status
	wait.ForAtMost(t, 2*time.Minute, "the other gang to run", func(ctx context.Context) error {
		all, err := other.getWorkloads(ctx)
		if err != nil {
			return err
		}
		if status = lifecycle.ReadStatus(all[0]); status.Phase != lifecycle.Running {
			return fmt.Errorf("the status is %+v", status)
		}
		return nil
	})
	t.Logf("the gang waited %d times: %s", status.Disruptions, status.FirstFailure)
	if status.Restarts > 0 || status.FirstFailure != nil && status.FirstFailure.Reason != "ResourceReservationTimeout" {
		t.Errorf("the gang used up %d restarts, and the first failure is %v", status.Restarts, status.FirstFailure)
	}
	other.deleteGang()
}

// countPlaceholders returns the number of placeholder pods of YuniKorn in a namespace; with isBound only those that
// have nodes.
func (s *placement) countPlaceholders(t *testing.T, ns string, isBound bool) (n int) {
	t.Helper()
	pods, err := s.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{
		LabelSelector: gang.LabelYuniKornApplication + ",!" + gang.LabelGang,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodFailed && p.DeletionTimestamp == nil && (!isBound || p.Spec.NodeName != "") {
			n++
		}
	}
	return n
}
