package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// largeObjectsEnv is the number of Jobs, and of Services, of TestAttackLargeObjects. For 1,000 of each, the machine
// needs 20 GiB of memory.
const largeObjectsEnv = "ROLLCALL_LARGE_OBJECTS"

// TestAttackLargeObjects creates Jobs and Services of more than a megabyte. Both replicas of the controller must follow
// the Jobs, report the namespace of the Services, and use less memory than the limit of the chart, also at their start.
func TestAttackLargeObjects(t *testing.T) {
	count := readAttackOption(t, largeObjectsEnv, 10)
	options := cluster.Options{
		Nodes: cluster.NoNodes,
		// The other components would keep the objects, too, and the machine has not enough memory.
		ControllerManagerFlags: []string{"--controllers=serviceaccount-controller"},
	}
	if count > 100 {
		// etcd would keep the last 5,000 requests for other members, and all versions of the objects for 5 minutes.
		options.EtcdFlags = []string{"--snapshot-count=100", "--snapshot-catchup-entries=10"}
		options.APIServerFlags = []string{"--etcd-compaction-interval=30s"}
		options.APIServerMemoryLimit = "11GiB"
	}
	c := startCluster(t, options)
	if err := c.SignalProgram("kube-scheduler", syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m := &manager{installation.NewWithLeaderElection(t, c)}
	ns := m.createNamespace(t)
	replicas := []*installation.Process{m.Controller, m.NewController(t)}
	replicas[1].Start(t)
	checkMemory(t, "before", replicas)
	m.createLargeObjects(t, ns, count)
	m.waitForEvent(t, ns, gang.ReasonTooLarge)
	waitForMetrics(t, replicas, ns, count)
	checkMemory(t, fmt.Sprintf("with %d Jobs and %d Services", count, count), replicas)
	for _, p := range replicas {
		p.Stop(t)
		p.Start(t)
	}
	waitForMetrics(t, replicas, ns, count)
	checkMemory(t, "after a restart", replicas)
}

// createLargeObjects creates as many Jobs, and as many Services.
func (m *manager) createLargeObjects(t *testing.T, ns string, count int) {
	t.Helper()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(count) && !t.Failed(); i = next.Add(1) {
				err := createWithRetries(func() error {
					_, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), newLargeJob(i), metav1.CreateOptions{})
					return err
				})
				if err == nil {
					err = createWithRetries(func() error {
						_, err := m.Client.CoreV1().Services(ns).Create(t.Context(), newLargeService(i), metav1.CreateOptions{})
						return err
					})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("a Job has %d KiB, and a Service %d KiB", newLargeJob(1).Size()>>10, newLargeService(1).Size()>>10)
}

// createWithRetries creates an object. Writes of many large objects exceed the timeout of etcd on a slow disk.
func createWithRetries(create func() error) error {
	backoff := apiwait.Backoff{Duration: 5 * time.Second, Factor: 2, Steps: 5}
	mayRetry := func(err error) bool { return !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) }
	return retry.OnError(backoff, mayRetry, func() error {
		err := create()
		if apierrors.IsAlreadyExists(err) { // the write of a timeout happened
			return nil
		}
		return err
	})
}

// newLargeJob returns a Job that a webhook just permits.
func newLargeJob(i int64) *batchv1.Job {
	job := newJob(fmt.Sprintf("train-%d", i), 1)
	job.Spec.Suspend = ptr.To(true)
	container := &job.Spec.Template.Spec.Containers[0]
	for j := range 1200 { // almost the bound of the memory
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", j), Value: strings.Repeat("x", 60)})
	}
	attributes := map[string]string{}
	for j := range 12 {
		attributes[fmt.Sprint(j)] = strings.Repeat("x", 100_000)
	}
	job.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{Driver: "example.com", VolumeAttributes: attributes},
	}}}
	for j := range 1000 {
		job.Labels[fmt.Sprintf("l%d", j)] = strings.Repeat("x", 60)
	}
	return job
}

// newLargeService returns a Service that no webhook sees.
func newLargeService(i int64) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("large-%d", i), Labels: map[string]string{gang.LabelGang: "large"},
		},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{}},
	}
	for j := range 20_000 {
		service.Spec.Selector[fmt.Sprintf("l%d", j)] = strings.Repeat("x", 60)
	}
	return service
}

// waitForMetrics waits until the metrics of the replicas name the namespace of all objects.
func waitForMetrics(t *testing.T, replicas []*installation.Process, ns string, count int) {
	t.Helper()
	large := fmt.Sprintf(`rollcall_too_large_objects{kind="Service",namespace="%s"}`, ns)
	suspended := fmt.Sprintf(`rollcall_gangs{framework="pytorch",namespace="%s",phase="Suspended"}`, ns)
	for i, p := range replicas {
		wait.For(t, fmt.Sprintf("metrics of all objects from replica %d", i), func(context.Context) error {
			select {
			case <-p.Exited(): // without an answer of the API server, the leader lost its Lease
				p.Start(t)
			default:
			}
			services, servicesErr := readMetric(t, p, large)
			jobs, jobsErr := readMetric(t, p, suspended)
			if services != count || jobs != count {
				return errors.Join(servicesErr, jobsErr,
					fmt.Errorf("%d Services are too large and %d gangs are suspended, want %d", services, jobs, count))
			}
			return nil
		})
	}
}

// checkMemory checks the largest memory that the replicas have used.
func checkMemory(t *testing.T, when string, replicas []*installation.Process) {
	t.Helper()
	for i, p := range replicas {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(status), "VmHWM:")
		peak, err := strconv.ParseInt(strings.Fields(text + " 0")[0], 10, 64)
		if peak <<= 10; err != nil || peak == 0 || peak > p.MemoryLimit() {
			t.Errorf("%s: replica %d used %d MiB, want at most %d: %v", when, i, peak>>20, p.MemoryLimit()>>20, err)
		}
		now, nowErr := readMetric(t, p, "process_resident_memory_bytes")
		heap, heapErr := readMetric(t, p, "go_memstats_heap_alloc_bytes")
		if err := errors.Join(nowErr, heapErr); err != nil {
			t.Error(err)
		}
		t.Logf("%s: replica %d: at most %d MiB, now %d MiB, heap %d MiB", when, i, peak>>20, now>>20, heap>>20)
	}
}

// readMetric returns the value of a series of a process; 0 if it does not exist.
func readMetric(t *testing.T, p *installation.Process, series string) (int, error) {
	t.Helper()
	var text bytes.Buffer
	if err := p.WriteMetrics(t.Context(), &text); err != nil {
		return 0, err
	}
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(text.String())
	if match == nil {
		return 0, nil
	}
	value, err := strconv.ParseFloat(match[1], 64)
	return int(value), err
}
