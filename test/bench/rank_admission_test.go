package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

const (
	// callsPerRound is the number of sequential calls of one client in each variant and round.
	callsPerRound = 500
	// measuredCallRounds is larger than measuredRounds: the rounds are short, and many short rounds
	// average out disturbances of the machine.
	measuredCallRounds = 10
)

// admissionCost is the cost of one pod in milliseconds.
type admissionCost struct{ medianLatency, apiServerCPU, managerCPU float64 }

// measureAdmissionCalls measures the cost of admitting one pod in an otherwise idle API server. It
// uses dry runs, which pass through admission but reach no queue, watch or disk.
func (g *benchCluster) measureAdmissionCalls(t *testing.T) {
	t.Helper()
	variants := listRankVariants(gang.Job)
	runs := map[variant][]admissionCost{}
	for _, v := range variants {
		ns := &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "calls-" + string(v), Labels: map[string]string{variantLabel: string(v)}},
		}
		if _, err := g.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range measuredCallRounds + 1 {
		order := slices.Clone(variants)
		if round%2 == 0 {
			slices.Reverse(order)
		}
		for _, v := range order {
			if r := g.measureCallRound(t, v); round > 0 {
				runs[v] = append(runs[v], r)
			}
		}
	}
	t.Logf("\n%s", formatAdmissionTable(variants, runs))
}

// measureCallRound makes the calls of one variant.
func (g *benchCluster) measureCallRound(t *testing.T, v variant) admissionCost {
	t.Helper()
	template := newJob("calls", "", 1).Spec.Template
	setRankSource(&template, v, appsv1.PodIndexLabel)
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	pod.GenerateName = "calls-"
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.PodIndexLabel] = "7"
	pods, options := g.client.CoreV1().Pods("calls-"+string(v)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	durations := make([]float64, 0, callsPerRound)
	before := readCPUSeconds(t)
	for range callsPerRound {
		begin := time.Now()
		made, err := pods.Create(t.Context(), pod, options)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		durations = append(durations, toMilliseconds(time.Since(begin)))
		if _, asked := pod.Labels[gang.LabelRankOffset]; asked != (made.Labels[gang.LabelRank] == "8") {
			t.Fatalf("%s: rank %q", v, made.Labels[gang.LabelRank])
		}
	}
	now := readCPUSeconds(t)
	each := func(program string) float64 { return (now[program] - before[program]) * 1000 / callsPerRound }
	return admissionCost{
		medianLatency: computeMedian(durations),
		apiServerCPU:  each("kube-apiserver"),
		managerCPU:    each("manager"),
	}
}

func toMilliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// formatAdmissionTable returns a table with the median and the range of the rounds.
func formatAdmissionTable(variants []variant, runs map[variant][]admissionCost) string {
	var text strings.Builder
	fmt.Fprintf(
		&text, "=== %d sequential dry runs: ms for each pod, median of %d rounds (and all rounds' range)\n",
		callsPerRound, measuredCallRounds,
	)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\tlatency of the client\t\tCPU: kube-apiserver\t\tCPU: manager\t\t\n")
	for _, v := range variants {
		fmt.Fprintf(table, "%s\t", v)
		for _, of := range []func(admissionCost) float64{
			func(r admissionCost) float64 { return r.medianLatency },
			func(r admissionCost) float64 { return r.apiServerCPU },
			func(r admissionCost) float64 { return r.managerCPU },
		} {
			var values []float64
			for _, r := range runs[v] {
				values = append(values, of(r))
			}
			fmt.Fprintf(table, "%.2f\t(%.2f-%.2f)\t", computeMedian(values), slices.Min(values), slices.Max(values))
		}
		fmt.Fprint(table, "\n")
	}
	_ = table.Flush() // a strings.Builder never fails
	return text.String()
}
