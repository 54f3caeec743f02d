package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestUninstall uninstalls Rollcall while gangs run and restart. It checks that no objects of Rollcall
// remain, and that the gangs run. Then it installs Rollcall again for the tests after it.
func TestUninstall(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	gangs := s.startGangsBeforeUninstall(t)
	if _, err := s.Helm(
		t.Context(), "uninstall", installation.Release, "--namespace", installation.Namespace, "--wait",
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.installChart(context.Background()); err != nil {
			t.Errorf("installing again: %v", err)
		}
	})
	wait.For(t, "the deletion of all objects", func(ctx context.Context) error {
		kinds, err := s.Kubectl(ctx, "api-resources", "--verbs=list", "--namespaced", "-o", "name")
		if err != nil {
			return err
		}
		// Every namespace has Events, which expire.
		isEvent := func(kind string) bool { return strings.HasPrefix(kind, "events") }
		list := strings.Join(slices.DeleteFunc(strings.Fields(kinds), isEvent), ",")
		inside, err := s.Kubectl(ctx, "--namespace", installation.Namespace, "get", list, "-o", "name", "--ignore-not-found")
		if err != nil {
			return err
		}
		outside, err := s.listClusterScopedObjects(ctx)
		if err != nil {
			return err
		}
		var left []string
		for _, name := range strings.Fields(inside) {
			// Every namespace has these objects.
			if name != "serviceaccount/default" && name != "configmap/kube-root-ca.crt" {
				left = append(left, name)
			}
		}
		for _, name := range outside {
			if !slices.Contains(s.objectsBeforeInstall, name) {
				left = append(left, name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left: %q", left)
		}
		return nil
	})
	gangs.check(t)
	job := newLabeledJob()
	job.Spec.Suspend = ptr.To(true)
	plain, err := s.client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a labeled Job cannot be created without Rollcall: %v", err)
	}
	if plain.Annotations[gang.AnnotationInjected] != "" {
		t.Error("the Job was still injected")
	}
}

// uninstallGangs are gangs that exist while Rollcall is uninstalled.
type uninstallGangs struct {
	// restarting are a Job and a StatefulSet in the back-off of their third restart.
	running    *terminableGang
	restarting []*terminableGang
}

// startGangsBeforeUninstall starts a running gang, and two that restart. The third restart has a back-off
// of 20 s, in which the gangs are suspended.
func (s *testCluster) startGangsBeforeUninstall(t *testing.T) uninstallGangs {
	t.Helper()
	gangs := uninstallGangs{
		running: s.createTerminableGangs(t, false, false)[0],
		restarting: []*terminableGang{
			s.createTerminableGangs(t, false, false)[0], s.createTerminableGangs(t, true, false)[0],
		},
	}
	for _, g := range gangs.restarting {
		g.permitRestarts(t)
	}
	gangs.running.pods = gangs.running.waitForRunningRanks(t, 0)
	const restarts = 3
	for restart := range int32(restarts) {
		for _, g := range gangs.restarting {
			g.pods = g.waitForRunningRanks(t, restart)
		}
		for _, g := range gangs.restarting {
			if err := s.deletePod(t.Context(), g.pods[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, g := range gangs.restarting {
		wait.For(t, "the restart of "+g.name, func(ctx context.Context) error {
			w, err := g.read(ctx)
			status := lifecycle.ReadStatus(w)
			if done := status.Restarts + status.Disruptions; err == nil && (done < restarts || !w.IsSuspended()) {
				err = fmt.Errorf("%s with %d restarts", status.Phase, done)
			}
			return err
		})
	}
	return gangs
}

// permitRestarts permits more restarts than the test needs. A restart that repairs a lost rank counts as well.
func (g *terminableGang) permitRestarts(t *testing.T) {
	t.Helper()
	kind := "job"
	if g.statefulSet {
		kind = "statefulset"
	}
	if _, err := g.Kubectl(t.Context(), "--namespace", g.namespace, "annotate", kind, g.name,
		gang.AnnotationMaxRestarts+"=10"); err != nil {
		t.Fatal(err)
	}
}

// check checks that the running gang was not disturbed, and that the restarting gangs were resumed. All
// Jobs have limits.
func (g uninstallGangs) check(t *testing.T) {
	t.Helper()
	for _, restarting := range g.restarting {
		wait.For(t, "the ranks of "+restarting.namespace+"/"+restarting.name, func(ctx context.Context) error {
			w, err := restarting.read(ctx)
			if err == nil && w.IsSuspended() {
				err = errors.New("it is suspended")
			}
			if err == nil && lifecycle.Observe(w).ReadyPods != drainedRanks {
				err = fmt.Errorf("%d ranks are ready", lifecycle.Observe(w).ReadyPods)
			}
			return err
		})
	}
	for _, pod := range g.running.listPods(t, g.running.namespace, g.running.name) {
		if pod.UID != g.running.pods[gang.PodIndex(&pod)].UID || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s of the running gang was replaced, or is %s", pod.Name, pod.Status.Phase)
		}
	}
	for _, each := range append(g.restarting, g.running) {
		w, err := each.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if w.Job != nil && (*w.Job.Spec.BackoffLimitPerIndex > 1000 || *w.Job.Spec.MaxFailedIndexes != 0) {
			t.Errorf("the limits of %s are %d and %d", each.name, *w.Job.Spec.BackoffLimitPerIndex, *w.Job.Spec.MaxFailedIndexes)
		}
		if !w.OptedOut() {
			t.Errorf("%s has the labels %v", each.name, w.Meta().Labels)
		}
	}
}

// listClusterScopedObjects lists the cluster-scoped objects that an installation could leave.
func (s *testCluster) listClusterScopedObjects(ctx context.Context) ([]string, error) {
	kinds := "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings," +
		"customresourcedefinitions,priorityclasses," +
		"validatingadmissionpolicies,validatingadmissionpolicybindings"
	if s.Release().Minor() >= 36 {
		kinds += ",mutatingadmissionpolicies,mutatingadmissionpolicybindings"
	}
	out, err := s.Kubectl(ctx, "get", kinds, "-o", "name")
	return strings.Fields(out), err
}
