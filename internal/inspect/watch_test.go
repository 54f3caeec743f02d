package inspect

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"rollcall.training/internal/lifecycle"
)

// watchTimeout is the time after which a test stops to wait for a watch.
const watchTimeout = 20 * time.Second

func newStatus(phase lifecycle.Phase) lifecycle.Status {
	return lifecycle.Status{State: lifecycle.State{Phase: phase, LastTransitionTime: testTime}}
}

func TestWatch(t *testing.T) {
	train := setStatus(t, newAdmittedJob(t, "train", "pytorch", 2), newStatus(lifecycle.Pending))
	client := fake.NewClientset(train, newPod(train, 0, readyStatus))
	ctx, cancel := context.WithTimeout(t.Context(), watchTimeout)
	defer cancel()
	changes := []func() error{
		func() error {
			_, err := client.CoreV1().Pods("team").Create(ctx, newPod(train, 1, readyStatus), metav1.CreateOptions{})
			return err
		},
		func() error {
			succeeded := setStatus(t, train.DeepCopy(), newStatus(lifecycle.Succeeded))
			_, err := client.BatchV1().Jobs("team").Update(ctx, succeeded, metav1.UpdateOptions{})
			return err
		},
	}
	var got []string
	err := newReader(client).Watch(ctx, "train", time.Millisecond, func(gangs []Gang) error {
		current := string(gangs[0].Phase) + " " + summarizeGang(gangs[0]).Cells
		if len(got) > 0 && got[len(got)-1] == current {
			return nil
		}
		got = append(got, current)
		if len(changes) == 0 {
			return nil
		}
		applyChange := changes[0]
		changes = changes[1:]
		return applyChange()
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Pending #.", "Pending ##", "Succeeded ##"}, got); diff != "" {
		t.Errorf("observed gangs (-want +got):\n%s", diff)
	}
}

func TestWatchEnds(t *testing.T) {
	for name, c := range map[string]struct {
		handle  func(context.Context, *fake.Clientset) error
		isError func(error) bool
	}{
		"the gang is deleted": {
			handle: func(ctx context.Context, client *fake.Clientset) error {
				err := client.BatchV1().Jobs("team").Delete(ctx, "train", metav1.DeleteOptions{})
				if apierrors.IsNotFound(err) {
					return nil // the cache does not show the deletion yet
				}
				return err
			},
			isError: func(err error) bool { return errors.Is(err, ErrDeleted) },
		},
		"the handler returns an error": {
			handle:  func(context.Context, *fake.Clientset) error { return errors.New("enough") },
			isError: func(err error) bool { return err != nil && err.Error() == "enough" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(newAdmittedJob(t, "train", "pytorch", 2))
			ctx, cancel := context.WithTimeout(t.Context(), watchTimeout)
			defer cancel()
			err := newReader(client).Watch(ctx, "train", time.Millisecond, func([]Gang) error {
				return c.handle(ctx, client)
			})
			if !c.isError(err) {
				t.Errorf("Watch() = %v", err)
			}
		})
	}
}

// TestWatchForbidden checks that Watch returns an error if the user may list pods but not watch
// them, instead of retrying indefinitely.
func TestWatchForbidden(t *testing.T) {
	client := fake.NewClientset(newAdmittedJob(t, "train", "pytorch", 2))
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no rule"))
	client.PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(nil, forbidden))
	ctx, cancel := context.WithTimeout(t.Context(), watchTimeout)
	defer cancel()
	err := newReader(client).Watch(ctx, "train", time.Millisecond, func([]Gang) error { return nil })
	if !apierrors.IsForbidden(err) {
		t.Errorf("Watch() = %v, want Forbidden", err)
	}
}
