package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	// disturbanceTimeout bounds the recovery from one disturbance.
	disturbanceTimeout = 3 * time.Minute
	// oomTimeout is how long the kernel may take to kill a process that exceeds its memory limit.
	oomTimeout = 20 * time.Second
	// settlePeriod is the time in which a component of the control plane may exit after a restart of the
	// API server.
	settlePeriod = 5 * time.Second
	// slowDNSPeriod is how long DNS does not answer. It is longer than the timeout of a resolver.
	slowDNSPeriod = 8 * time.Second
	// pollInterval is the pause between two looks at the pods of Rollcall.
	pollInterval = 500 * time.Millisecond
)

// disturber disturbs Rollcall and the control plane. counts contains the number of disturbances by name.
type disturber struct {
	*cluster.Cluster
	client  kubernetes.Interface
	results *results
	counts  map[string]int
}

// disturbance is one kind of disturbance. It returns when the cluster has recovered.
type disturbance struct {
	name string
	run  func(context.Context) error
}

func (d *disturber) all() []disturbance {
	return []disturbance{
		{"rollouts of all Deployments", d.rollDeployments},
		{"drains of all pods", d.drainPods},
		{"thefts of the Lease", d.stealLease},
		{"leaders killed by memory", d.killLeaderByMemory},
		{"restarts of the API server", d.restartAPIServer},
		{"periods of slow DNS", d.slowDNS},
	}
}

// run runs all disturbances again and again until ctx ends, in a different order each time.
func (d *disturber) run(ctx context.Context) error {
	for {
		order := d.all()
		rand.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		for _, next := range order {
			select {
			case <-ctx.Done():
				return nil
			default:
			}
			// A disturbance that has started also ends, so that the installation can be removed.
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), disturbanceTimeout)
			err := next.run(limited)
			cancel()
			if err != nil {
				return fmt.Errorf("%s: %w", next.name, err)
			}
			d.counts[next.name]++
		}
	}
}

func (d *disturber) kubectl(ctx context.Context, args ...string) error {
	_, err := d.Kubectl(ctx, append([]string{"--namespace", installation.Namespace}, args...)...)
	return err
}

func (d *disturber) rollDeployments(ctx context.Context) error {
	if err := d.kubectl(ctx, "rollout", "restart", "deployment"); err != nil {
		return err
	}
	return d.waitForDeployments(ctx)
}

func (d *disturber) waitForDeployments(ctx context.Context) error {
	return d.kubectl(ctx, "rollout", "status", "deployment", "--timeout=3m")
}

// drainPods evicts all pods of Rollcall, as kubectl drain does: it repeats an eviction that a
// PodDisruptionBudget rejects.
func (d *disturber) drainPods(ctx context.Context) error {
	pods, err := d.client.CoreV1().Pods(installation.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		for {
			err := d.client.PolicyV1().Evictions(installation.Namespace).Evict(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
			})
			if err == nil || apierrors.IsNotFound(err) {
				break
			}
			if !apierrors.IsTooManyRequests(err) {
				return err
			}
			time.Sleep(pollInterval)
		}
	}
	return d.waitForDeployments(ctx)
}

// readLease returns the Lease of the leader.
func (d *disturber) readLease(ctx context.Context) (*coordinationv1.Lease, error) {
	list, err := d.client.CoordinationV1().Leases(installation.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("%d Leases, want one", len(list.Items))
	}
	return &list.Items[0], nil
}

// stealLease gives the Lease to somebody else, who does not renew it. The leader exits, and another pod
// becomes the leader when the Lease has expired.
func (d *disturber) stealLease(ctx context.Context) error {
	const thief = "thief"
	for {
		lease, err := d.readLease(ctx)
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To(thief), ptr.To(metav1.NowMicro())
		_, err = d.client.CoordinationV1().Leases(installation.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) { // the leader renewed the Lease
			return err
		}
	}
	for ; ; time.Sleep(pollInterval) {
		lease, err := d.readLease(ctx)
		if err != nil {
			return err
		}
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" && holder != thief {
			return d.waitForDeployments(ctx)
		}
	}
}

// killLeaderByMemory lowers the memory limit in the cgroup of the leader to what the leader uses, so that
// the kernel kills it. The kubelet then reports OOMKilled and restarts the container with the limit of
// the chart. If the kernel does not kill the leader within some seconds, the test sends the same signal.
func (d *disturber) killLeaderByMemory(ctx context.Context) error {
	leader, err := d.waitForLeader(ctx)
	if err != nil {
		return err
	}
	before := restartCount(leader)
	pid, cgroup, err := findProcess(string(leader.UID))
	if err != nil {
		return err
	}
	for start := time.Now(); ; time.Sleep(pollInterval) {
		pod, err := d.client.CoreV1().Pods(installation.Namespace).Get(ctx, leader.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if restartCount(pod) > before {
			d.counts["of the killed leaders: "+lastTerminationReason(pod)]++
			return d.waitForDeployments(ctx)
		}
		if time.Since(start) < oomTimeout {
			_ = lowerMemoryLimit(cgroup) // repeated, because the kernel first reclaims what it can
		} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
}

// waitForLeader waits until a pod that runs is the leader. After a drain, the Lease may name a pod that is
// gone until the Lease expires.
func (d *disturber) waitForLeader(ctx context.Context) (*corev1.Pod, error) {
	for ; ; time.Sleep(pollInterval) {
		lease, err := d.readLease(ctx)
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		pod, err := d.client.CoreV1().Pods(installation.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil && pod.DeletionTimestamp == nil:
			return pod, nil
		case err != nil && !apierrors.IsNotFound(err) && name != "":
			return nil, err
		}
	}
}

func restartCount(pod *corev1.Pod) (n int32) {
	for _, c := range pod.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

func lastTerminationReason(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.LastTerminationState.Terminated; t != nil {
			return fmt.Sprintf("%s with exit code %d", t.Reason, t.ExitCode)
		}
	}
	return "nothing"
}

// findProcess returns the PID of the manager in a pod, and the path of its cgroup for memory below the
// mount of its cgroups.
func findProcess(podUID string) (pid int, cgroup string, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), podUID) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		if err != nil || strings.TrimSpace(string(command)) != "manager" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		return pid, parseMemoryCgroup(string(text)), err
	}
	return 0, "", fmt.Errorf("the pod %s has no process", podUID)
}

// parseMemoryCgroup returns the path of the cgroup that limits memory, from /proc/<pid>/cgroup.
func parseMemoryCgroup(text string) string {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && (fields[0] == "0" && fields[1] == "" || strings.Contains(fields[1], "memory")) {
			if fields[1] != "" {
				return filepath.Join("/sys/fs/cgroup", fields[1], fields[2])
			}
			return filepath.Join("/sys/fs/cgroup", fields[2])
		}
	}
	return ""
}

// lowerMemoryLimit lowers the limit of a cgroup as far as possible. cgroup v2 kills at once. cgroup v1
// rejects a limit below what it cannot reclaim, so the limit is what the container uses.
func lowerMemoryLimit(cgroup string) error {
	const limit, margin = 1 << 20, 64 << 10
	if path := filepath.Join(cgroup, "memory.max"); fileExists(path) {
		return os.WriteFile(path, []byte(strconv.Itoa(limit)), 0)
	}
	path := filepath.Join(cgroup, "memory.limit_in_bytes")
	if err := os.WriteFile(path, []byte(strconv.Itoa(limit)), 0); err == nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(cgroup, "memory.usage_in_bytes"))
	if err != nil {
		return err
	}
	usage, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strconv.Itoa(usage+margin)), 0)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (d *disturber) restartAPIServer(ctx context.Context) error {
	err := d.results.recordOutage(func() error { return d.RestartAPIServer(ctx) })
	if err != nil {
		return err
	}
	time.Sleep(settlePeriod)
	_, err = d.RestartExited()
	return err
}

// slowDNS stops the DNS server for some seconds. Queries during that time are answered afterward.
func (d *disturber) slowDNS(context.Context) error {
	const name = "coredns"
	if err := d.SignalProgram(name, syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(slowDNSPeriod)
	return d.SignalProgram(name, syscall.SIGCONT)
}
