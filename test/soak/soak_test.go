package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// soakEnv is the environment variable with the duration of the calls.
const soakEnv = "SOAK"

// The validity of certificates. Certificates are backdated by half of a short validity and renewed when a
// third of the whole remains: the CA every 60 s, and a serving certificate every 20 s.
const (
	caDuration   = 120 * time.Second
	leafDuration = 40 * time.Second
)

// TestSoak makes 20 calls per second while everything that Rollcall depends on is disturbed. No call may
// fail, and none may be admitted without injection.
func TestSoak(t *testing.T) {
	if os.Getenv(soakEnv) == "" {
		t.Skipf("run make soak, or set %s to a duration", soakEnv)
	}
	duration, err := time.ParseDuration(os.Getenv(soakEnv))
	if err != nil {
		t.Fatalf("reading %s: %v", soakEnv, err)
	}
	if err := cluster.CanRunReal(); err != nil {
		t.Skipf("real nodes are not possible: %v", err)
	}
	c, client := startCluster(t)
	namespace := createWorkloads(t, client)
	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	r := newResults()
	d := &disturber{Cluster: c, client: client, results: r, counts: map[string]int{}}
	var running sync.WaitGroup
	running.Go(func() { r.makeCalls(ctx, newCalls(client, namespace)) })
	var authorities map[string]bool
	running.Go(func() { authorities = watchAuthority(ctx, client) })
	err = d.run(ctx)
	stop()
	running.Wait()
	if err != nil {
		t.Errorf("disturbing the cluster: %v", err)
	}
	t.Logf("%s of calls\n%s%s%d CAs", duration, r.format(), formatCounts(d.counts), len(authorities))
	checkResults(t, r, d, len(authorities), duration)
}

// checkResults fails the test if a call failed, or if nothing was tested.
func checkResults(t *testing.T, r *results, d *disturber, authorities int, duration time.Duration) {
	t.Helper()
	calls, failed := r.count()
	if failed > 0 || r.uninjected > 0 {
		t.Errorf("%d of %d calls failed, and %d were admitted without injection", failed, calls, r.uninjected)
	}
	if minCalls := int(duration / callInterval / 2); calls < minCalls {
		t.Errorf("only %d calls count, want at least %d", calls, minCalls)
	}
	if minAuthorities := int(duration / caDuration); authorities < minAuthorities {
		t.Errorf("%d CAs in %s, want at least %d", authorities, duration, minAuthorities)
	}
	if len(d.counts) == 0 {
		t.Error("nothing was disturbed")
	}
}

// startCluster starts a cluster with a real node and installs Rollcall with certificates of short
// validity.
func startCluster(t *testing.T) (*cluster.Cluster, kubernetes.Interface) {
	t.Helper()
	manager, err := installation.NewManagerImage()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Real, Images: []cluster.ImageSource{manager}})
	if err := installation.InstallChart(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--ca-duration=%s"},
		{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--leaf-duration=%s"}]`,
		caDuration, leafDuration)
	kubectl := func(args ...string) {
		t.Helper()
		if _, err := c.Kubectl(t.Context(), append([]string{"--namespace", installation.Namespace}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	kubectl("patch", "deployment/"+installation.WebhookName, "--type=json", "--patch="+patch)
	kubectl("rollout", "status", "deployment/"+installation.WebhookName, "--timeout=3m")
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the end of the old pods", func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(installation.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil && slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }) {
			err = errors.New("a pod is terminating")
		}
		return err
	})
	// A valid CA is not replaced before its renewal is due, so the CA of the installation goes.
	kubectl("delete", "secret", "--field-selector=type!=helm.sh/release.v1")
	return c, client
}

// createWorkloads creates the workloads that are updated, and returns their namespace.
func createWorkloads(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the workloads", func(ctx context.Context) error {
		_, err := client.BatchV1().Jobs(namespace.Name).Create(ctx, newJob(existing), metav1.CreateOptions{})
		return err
	})
	set := newStatefulSet(existing)
	*set.Spec.Replicas = 1 // an image that does not exist must not occupy the node
	_, err = client.AppsV1().StatefulSets(namespace.Name).Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// watchAuthority returns the certificates of all CAs that the Secret contained until ctx ended.
func watchAuthority(ctx context.Context, client kubernetes.Interface) map[string]bool {
	seen := map[string]bool{}
	for ctx.Err() == nil {
		secrets, err := client.CoreV1().Secrets(installation.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil {
			for _, secret := range secrets.Items {
				if certificate, ok := secret.Data[corev1.TLSCertKey]; ok {
					seen[string(certificate)] = true
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return seen
}

// formatCounts returns the number of disturbances, one per line.
func formatCounts(counts map[string]int) string {
	var lines []string
	for name, n := range counts {
		lines = append(lines, fmt.Sprintf("%d %s\n", n, name))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
