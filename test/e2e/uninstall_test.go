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
)

// TestUninstall comes last by the order of the files of this package: it takes Rollcall away and
// looks for anything that is left.
func TestUninstall(t *testing.T) {
	s := here(t)
	ns := s.namespace(t)
	if _, err := s.Helm(t.Context(), "uninstall", release, "--namespace", releaseNamespace, "--wait"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.install(context.Background()); err != nil {
			t.Errorf("installing again: %v", err)
		}
	})
	eventually(t, "nothing to be left", func(ctx context.Context) error {
		kinds, err := s.Kubectl(ctx, "api-resources", "--verbs=list", "--namespaced", "-o", "name")
		if err != nil {
			return err
		}
		list := strings.Join(strings.Fields(kinds), ",")
		inside, err := s.Kubectl(ctx, "--namespace", releaseNamespace, "get", list, "-o", "name", "--ignore-not-found")
		if err != nil {
			return err
		}
		outside, err := s.clusterScoped(ctx)
		if err != nil {
			return err
		}
		var left []string
		for _, name := range strings.Fields(inside) {
			// What every namespace has, and Events, which go by themselves.
			if name != "serviceaccount/default" && name != "configmap/kube-root-ca.crt" && !strings.HasPrefix(name, "event") {
				left = append(left, name)
			}
		}
		for _, name := range outside {
			if !slices.Contains(s.before, name) {
				left = append(left, name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left: %q", left)
		}
		return nil
	})
	job := labelledJob()
	job.Spec.Suspend = ptr.To(true)
	plain, err := s.client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a labelled Job cannot be created without Rollcall: %v", err)
	}
	if plain.Annotations[gang.AnnotationInjected] != "" {
		t.Error("somebody still injects")
	}
}

// clusterScoped lists the objects outside of namespaces that an installation could
// leave.
func (s *site) clusterScoped(ctx context.Context) ([]string, error) {
	kinds := "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings,customresourcedefinitions,priorityclasses," +
		"validatingadmissionpolicies,validatingadmissionpolicybindings"
	if s.Release() != cluster.Floor {
		kinds += ",mutatingadmissionpolicies,mutatingadmissionpolicybindings"
	}
	out, err := s.Kubectl(ctx, "get", kinds, "-o", "name")
	return strings.Fields(out), err
}
