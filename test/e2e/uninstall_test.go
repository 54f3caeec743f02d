package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestUninstall uninstalls Rollcall and checks that no objects remain. It must run last, so its
// file must be the last of this package by name.
func TestUninstall(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
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
		list := strings.Join(strings.Fields(kinds), ",")
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
			// Every namespace has these objects. Events expire.
			if name != "serviceaccount/default" && name != "configmap/kube-root-ca.crt" && !strings.HasPrefix(name, "event") {
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

// listClusterScopedObjects lists the cluster-scoped objects that an installation could leave.
func (s *testCluster) listClusterScopedObjects(ctx context.Context) ([]string, error) {
	kinds := "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings," +
		"customresourcedefinitions,priorityclasses," +
		"validatingadmissionpolicies,validatingadmissionpolicybindings"
	if s.Release() != cluster.OldestSupported {
		kinds += ",mutatingadmissionpolicies,mutatingadmissionpolicybindings"
	}
	out, err := s.Kubectl(ctx, "get", kinds, "-o", "name")
	return strings.Fields(out), err
}
