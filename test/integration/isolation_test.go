package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestIsolation checks that admission does not depend on the controller. While the controller fails in
// different ways, every call must succeed.
func TestIsolation(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.NewWithLeaderElection(t, c)}
	ns := m.createNamespace(t)
	for name, fail := range map[string]func(*testing.T, *manager){
		"Stopped":   stopController,
		"Crashes":   crashController,
		"LeaseLost": stealLease,
	} {
		t.Run(name, func(t *testing.T) {
			wait.For(t, "an answer of the webhook", func(ctx context.Context) error { return m.callWebhook(ctx, ns) })
			stop := m.callWebhookContinuously(t, ns)
			fail(t, m)
			time.Sleep(3 * time.Second)
			calls, failures := stop()
			t.Logf("%d calls, %d failed", calls, len(failures))
			if len(failures) > 0 {
				t.Errorf("%d of %d calls failed, the first with: %v", len(failures), calls, failures[0])
			}
			if calls == 0 {
				t.Error("no calls were made")
			}
			m.Controller.Start(t)
		})
	}
	t.Run("WebhookStartsAlone", func(t *testing.T) { testWebhookStartsAlone(t, m, ns) })
}

// stopController stops the controller, as "kubectl scale --replicas=0" does.
func stopController(t *testing.T, m *manager) { m.Controller.Stop(t) }

// crashController kills the controller several times while it starts, as a limit of memory does.
func crashController(t *testing.T, m *manager) {
	for range 5 {
		if err := m.Controller.Kill(); err != nil {
			t.Fatal(err)
		}
		m.Controller.Launch(t)
		time.Sleep(300 * time.Millisecond)
	}
	m.Controller.Stop(t)
}

// stealLease gives the Lease to another holder. The controller then exits with an error.
func stealLease(t *testing.T, m *manager) {
	wait.For(t, "the controller to be the leader", func(ctx context.Context) error {
		var text strings.Builder
		if err := m.Controller.WriteMetrics(ctx, &text); err != nil {
			return err
		}
		if !strings.Contains(text.String(), `leader_election_master_status{name="rollcall"} 1`) {
			return errors.New("it is not the leader")
		}
		return nil
	})
	leases := m.Client.CoordinationV1().Leases(installation.Namespace)
	wait.For(t, "the theft of the Lease", func(ctx context.Context) error {
		lease, err := leases.Get(ctx, "rollcall", metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity = ptr.To("thief")
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	select {
	case <-m.Controller.Exited():
	case <-time.After(wait.Timeout):
		t.Error("the controller did not exit without its Lease")
	}
	m.Controller.Stop(t)
}

// testWebhookStartsAlone restarts the webhook while no controller runs, and reports the time until it
// answers.
func testWebhookStartsAlone(t *testing.T, m *manager, ns string) {
	m.Controller.Stop(t)
	m.Webhook.Stop(t)
	begin := time.Now()
	m.Webhook.Launch(t)
	for {
		err := m.callWebhook(t.Context(), ns)
		if err == nil {
			break
		}
		if time.Since(begin) > wait.Timeout {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("the first answer after %s", time.Since(begin).Round(time.Millisecond))
	var text strings.Builder
	if err := m.Webhook.WriteMetrics(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "process_resident_memory_bytes") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// callWebhook creates a labeled Job as a dry run. It returns an error if the webhook did not inject it.
func (m *manager) callWebhook(ctx context.Context, ns string) error {
	job, err := m.Client.BatchV1().Jobs(ns).Create(ctx, newJob("call", 1),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil && job.Annotations[gang.AnnotationInjected] == "" {
		err = fmt.Errorf("the Job %s was not injected", job.Name)
	}
	return err
}

// callWebhookContinuously calls the webhook until the returned function is called, which returns the
// number of calls and their errors.
func (m *manager) callWebhookContinuously(t *testing.T, ns string) func() (calls int, failures []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var calls int
	var failures []error
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := m.callWebhook(context.WithoutCancel(ctx), ns); err != nil {
				failures = append(failures, err)
			}
			calls++
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() (int, []error) {
		cancel()
		running.Wait()
		return calls, failures
	}
}
