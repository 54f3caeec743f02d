package detach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/kueue"
	"rollcall.training/internal/roster/cluster"
)

// getWorkload reads a workload again. The error is NotFound if it was recreated.
func (d Detacher) getWorkload(ctx context.Context, w gang.Workload) (gang.Workload, error) {
	namespace, name := w.Meta().Namespace, w.Meta().Name
	current, err := cluster.GetWorkload(ctx, d.Client, w.Kind(), namespace, name)
	if err != nil {
		return w, err
	}
	if current.Meta().UID != w.Meta().UID {
		return w, apierrors.NewNotFound(schema.GroupResource{Resource: string(w.Kind())}, name)
	}
	return current, nil
}

// isKueueInstalled reports whether the API server serves the API of Kueue. Otherwise nobody resumes a
// Job that names a queue.
func (d Detacher) isKueueInstalled() (bool, error) {
	groups, err := d.Client.Discovery().ServerGroups()
	if err != nil {
		return false, fmt.Errorf("discovering the API groups: %w", err)
	}
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == kueue.Version.Group }), nil
}

// patch writes the changes of a workload. The error is a [waitError] if somebody else changed the
// workload meanwhile.
func (d Detacher) patch(ctx context.Context, before, after gang.Workload, subresources ...string) error {
	patch, err := createPatch(before, after)
	if err != nil {
		return err
	}
	namespace, name := before.Meta().Namespace, before.Meta().Name
	options := metav1.PatchOptions{FieldManager: FieldManager}
	if before.Job != nil {
		_, err = d.Client.BatchV1().Jobs(namespace).
			Patch(ctx, name, types.MergePatchType, patch, options, subresources...)
	} else {
		_, err = d.Client.AppsV1().StatefulSets(namespace).
			Patch(ctx, name, types.MergePatchType, patch, options, subresources...)
	}
	switch {
	case apierrors.IsConflict(err):
		return waitError{"it was changed at the same time"}
	case err != nil:
		return fmt.Errorf("patching %s %s: %w", before.Kind(), name, err)
	}
	return nil
}

// createPatch returns the difference of two versions of a workload, on the condition that its resource
// version did not change.
func createPatch(before, after gang.Workload) ([]byte, error) {
	base := before.DeepCopy()
	base.Meta().ResourceVersion = ""
	from, fromErr := json.Marshal(base.Object())
	to, toErr := json.Marshal(after.Object())
	patch, patchErr := jsonpatch.CreateMergePatch(from, to)
	if err := errors.Join(fromErr, toErr, patchErr); err != nil {
		return nil, fmt.Errorf("comparing two versions of %s: %w", before.Meta().Name, err)
	}
	return patch, nil
}
