package inspect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestAddLogTail checks what a live view shows of the log of a rank.
func TestAddLogTail(t *testing.T) {
	for name, c := range map[string]struct {
		rank         *int32
		log          string
		err          error
		want         string
		wantWarning  string
		wantRequests int
	}{
		"without a rank, no log is read": {log: "loading\n"},
		"the last lines of a rank": {
			rank: ptr.To[int32](1), log: "loading\n" + strings.Repeat("step\n", 9) + "\x1b[31mlast\x1b[0m\n",
			want: "\nLog of rank 1\n" + strings.Repeat("  step\n", 9) + "  [31mlast[0m\n", wantRequests: 1,
		},
		"the last states of a progress bar": {
			rank: ptr.To[int32](1), log: strings.Repeat("old\r", 50) + strings.Repeat("new\r", 10),
			want: "\nLog of rank 1\n" + strings.Repeat("  new\n", 10), wantRequests: 1,
		},
		"long lines are cut": {
			rank: ptr.To[int32](1), log: strings.Repeat("x", 100),
			want: "\nLog of rank 1\n  " + strings.Repeat("x", 37) + "…\n", wantRequests: 1,
		},
		"a rank that prints nothing": {rank: ptr.To[int32](1), want: "\nLog of rank 1: empty\n", wantRequests: 1},
		"a rank without a pod":       {rank: ptr.To[int32](0), want: "\nLog of rank 0: empty\n"},
		"a rank that does not exist": {rank: ptr.To[int32](2), wantWarning: "The gang has no rank 2"},
		"a node that does not respond": {
			rank: ptr.To[int32](1), err: apierrors.NewServiceUnavailable("no route"),
			want: "\nLog of rank 1: empty\n", wantRequests: 1,
		},
		"a user without permission": {
			rank: ptr.To[int32](1), wantRequests: 1,
			err:         apierrors.NewForbidden(corev1.Resource("pods/log"), "train-1", nil),
			wantWarning: "The log of rank 1 is not shown: you are not allowed to read logs in this namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := setStatus(t, newAdmittedJob(t, "train", "pytorch", 2), newStatus(lifecycle.Running))
			job.Annotations[gang.AnnotationContainers] = "trainer"
			client := newLogClient([]byte(c.log), c.err, job, newPod(job, 1, readyStatus))
			r := newReader(client)
			r.LogRank = c.rank
			g, err := r.GetGang(t.Context(), "train")
			if err != nil {
				t.Fatal(err)
			}
			r.addLogTail(t.Context(), &g)
			var out strings.Builder
			printLogTail(&out, PrintOptions{Width: 40}, g.LogTail)
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if got := strings.Join(g.Warnings, "\n"); got != c.wantWarning {
				t.Errorf("warning %q, want %q", got, c.wantWarning)
			}
			if n := countLogRequests(client); n != c.wantRequests {
				t.Errorf("%d logs were read, want %d", n, c.wantRequests)
			}
		})
	}
}
