package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/wait"
)

// largeObjectsEnv is the number of Jobs, and of Services, of testLargeObjects.
const largeObjectsEnv = "ROLLCALL_LARGE_OBJECTS"

// testLargeObjects creates Jobs and Services of more than a megabyte. It checks that the controller follows the
// Jobs and reports the namespace of the Services, and prints the memory of the controller.
func testLargeObjects(t *testing.T, m *manager, ns string) {
	count := 10
	if text := os.Getenv(largeObjectsEnv); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	printMemory := func(when string) {
		t.Logf("%s: resident %d MiB, heap %d MiB", when,
			m.readMetric(t, "process_resident_memory_bytes")>>20, m.readMetric(t, "go_memstats_heap_alloc_bytes")>>20)
	}
	printMemory("before")
	jobs := m.Client.BatchV1().Jobs(ns)
	for i := range count {
		job := newJob(fmt.Sprintf("train-%d", i), 1)
		job.Spec.Suspend = ptr.To(true)
		container := &job.Spec.Template.Spec.Containers[0]
		for j := range 1200 { // almost the bound of the memory
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", j), Value: strings.Repeat("x", 60)})
		}
		attributes := map[string]string{}
		for j := range 9 {
			attributes[fmt.Sprint(j)] = strings.Repeat("x", 100_000)
		}
		job.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: "example.com", VolumeAttributes: attributes},
		}}}
		for j := range 1000 {
			job.Labels[fmt.Sprintf("l%d", j)] = strings.Repeat("x", 60)
		}
		m.createJob(t, ns, job)
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("large-%d", i), Labels: map[string]string{gang.LabelGang: "large"},
			},
			Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{}},
		}
		for j := range 9000 {
			service.Spec.Selector[fmt.Sprintf("l%d", j)] = strings.Repeat("x", 60)
		}
		if _, err := m.Client.CoreV1().Services(ns).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	series := fmt.Sprintf(`rollcall_too_large_objects{kind="Service",namespace="%s"}`, ns)
	phases := fmt.Sprintf(`rollcall_gangs{framework="pytorch",namespace="%s",phase="Suspended"}`, ns)
	wait.For(t, "metrics of all objects", func(context.Context) error {
		if large, suspended := m.readMetric(t, series), m.readMetric(t, phases); large != count || suspended != count {
			return fmt.Errorf("%d Services are too large and %d gangs are suspended, want %d", large, suspended, count)
		}
		return nil
	})
	printMemory("after the events")
	m.Controller.Stop(t)
	m.Controller.Start(t)
	printMemory("after a restart of the controller")
	list, err := jobs.List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil || len(list.Items) == 0 {
		t.Fatal(err)
	}
	t.Logf("%d Jobs of %d KiB and %d Services", count, list.Items[0].Size()>>10, count)
}

// readMetric returns the value of a series of the controller; 0 if it does not exist.
func (m *manager) readMetric(t *testing.T, series string) int {
	t.Helper()
	var text bytes.Buffer
	if err := m.Controller.WriteMetrics(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(text.String())
	if match == nil {
		return 0
	}
	value, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(value)
}
