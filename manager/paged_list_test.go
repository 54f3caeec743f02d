package manager

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"rollcall.training/internal/controller"
)

// TestPagedLister checks that a list of all objects reads pages, and keeps only what the cache keeps of each page.
func TestPagedLister(t *testing.T) {
	var requests []metav1.ListOptions
	pages := &toolscache.ListWatch{ListWithContextFunc: func(
		_ context.Context, options metav1.ListOptions,
	) (runtime.Object, error) {
		requests = append(requests, options)
		page := &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
		if len(requests) < 3 {
			page.Continue = strconv.Itoa(len(requests))
		}
		job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(len(requests))}}
		job.Labels = map[string]string{"large": "label"}
		page.Items = []batchv1.Job{job}
		return page, nil
	}}
	list, err := pagedLister{pages, controller.TrimWorkload}.List(metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.ListOptions{{Limit: 50}, {Limit: 50, Continue: "1"}, {Limit: 50, Continue: "2"}}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	names := []string{}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		job := o.(*batchv1.Job)
		names = append(names, job.Name)
		if job.Labels != nil {
			t.Errorf("the Job %s has the labels %v", job.Name, job.Labels)
		}
		return nil
	})
	if diff := cmp.Diff([]string{"1", "2", "3"}, names); diff != "" || err != nil {
		t.Errorf("%v, Jobs (-want +got):\n%s", err, diff)
	}
	if accessor, err := meta.ListAccessor(list); err != nil || accessor.GetResourceVersion() != "7" {
		t.Errorf("the list has no version: %v", err)
	}
}
