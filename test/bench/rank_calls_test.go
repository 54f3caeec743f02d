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
	// calls are made by one client, one after another, in each variant and round.
	calls = 500
	// callRounds are more than of the loads: they are short, and many short ones see more of the machine's moods.
	callRounds = 10
)

// callRun is what one pod costs, in milliseconds.
type callRun struct{ median, server, manager float64 }

// calls measures what it costs the API server to admit one pod, with nothing else going on: dry runs, which go through
// all admission, and into no queue, no watch and no disk.
func (g *ground) calls(t *testing.T) {
	t.Helper()
	variants := rankVariants(gang.Job)
	runs := map[variant][]callRun{}
	for _, v := range variants {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "calls-" + string(v), Labels: map[string]string{variantLabel: string(v)}}}
		if _, err := g.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range callRounds + 1 {
		order := slices.Clone(variants)
		if round%2 == 0 {
			slices.Reverse(order)
		}
		for _, v := range order {
			if r := g.callRound(t, v); round > 0 {
				runs[v] = append(runs[v], r)
			}
		}
	}
	t.Logf("\n%s", callTable(variants, runs))
}

// callRound makes the calls of one variant.
func (g *ground) callRound(t *testing.T, v variant) callRun {
	t.Helper()
	template := job("calls", "", 1).Spec.Template
	ranked(&template, v, appsv1.PodIndexLabel)
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	pod.GenerateName = "calls-"
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.PodIndexLabel] = "7"
	pods, options := g.client.CoreV1().Pods("calls-"+string(v)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	durations := make([]float64, 0, calls)
	before := cpu(t)
	for range calls {
		begin := time.Now()
		made, err := pods.Create(t.Context(), pod, options)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		durations = append(durations, milliseconds(time.Since(begin)))
		if _, asked := pod.Labels[gang.LabelRankOffset]; asked != (made.Labels[gang.LabelRank] == "8") {
			t.Fatalf("%s: rank %q", v, made.Labels[gang.LabelRank])
		}
	}
	now := cpu(t)
	each := func(program string) float64 { return (now[program] - before[program]) * 1000 / calls }
	return callRun{median: middle(durations), server: each("kube-apiserver"), manager: each("manager")}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// callTable shows medians of the rounds, and between which figures they lie.
func callTable(variants []variant, runs map[variant][]callRun) string {
	var text strings.Builder
	fmt.Fprintf(&text, "=== one pod after another, %d dry runs each: ms for each pod, median of %d rounds (and all rounds' range)\n", calls, callRounds)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\tas the client sees it\t\tCPU: kube-apiserver\t\tCPU: manager\t\t\n")
	for _, v := range variants {
		fmt.Fprintf(table, "%s\t", v)
		for _, of := range []func(callRun) float64{
			func(r callRun) float64 { return r.median },
			func(r callRun) float64 { return r.server },
			func(r callRun) float64 { return r.manager },
		} {
			var values []float64
			for _, r := range runs[v] {
				values = append(values, of(r))
			}
			fmt.Fprintf(table, "%.2f\t(%.2f-%.2f)\t", middle(values), slices.Min(values), slices.Max(values))
		}
		fmt.Fprint(table, "\n")
	}
	_ = table.Flush() // the builder never fails
	return text.String()
}
