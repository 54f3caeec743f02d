package controller

import (
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// maxWholeBytes is the maximum memory of the whole workloads of a gang that a pass reads, by [gang.MeasureMemory]. Many
// small maps need twice as much. Admission bounds only what the cache contains of a workload: 467 KiB in etcd can need
// 5.6 MiB.
const maxWholeBytes = 16 << 20

// errTooMuchMemory means that the whole workloads of a gang exceed maxWholeBytes.
var errTooMuchMemory = fmt.Errorf(
	"its workloads need more than %d MiB of memory; use fewer volumes or volumeClaimTemplates", maxWholeBytes>>20)

// wholeReads bounds the whole workloads that all passes keep at the same time. A pass of a gang of one workload waits
// only for passes of larger gangs.
var wholeReads = semaphore.NewWeighted(maxConcurrentReconciles)

// useWholes calls a function with members and their whole workloads, as read returns them, when the passes of other
// gangs permit it. It leaves out members of which read returns the zero value. The error is errTooMuchMemory beyond
// the maximum.
func useWholes(
	ctx context.Context, members []member, read func(context.Context, member) (gang.Workload, error),
	use func([]member) error,
) error {
	n := int64(min(len(members), maxConcurrentReconciles))
	if err := wholeReads.Acquire(ctx, n); err != nil {
		return fmt.Errorf("waiting for the reads of other gangs: %w", err)
	}
	defer wholeReads.Release(n)
	var out []member
	bytes := 0
	for _, m := range members {
		whole, err := read(ctx, m)
		if err != nil {
			return err
		}
		if whole == (gang.Workload{}) {
			continue
		}
		if bytes += gang.MeasureMemory(whole.Object(), math.MaxInt); bytes > maxWholeBytes {
			return errTooMuchMemory
		}
		m.Workload = whole
		out = append(out, m)
	}
	return use(out)
}

// readWhole reads a member from the API server with the fields that the cache does not contain. The error is
// errChildChanging if the cache has another version.
func (r *Reconciler) readWhole(ctx context.Context, m member) (gang.Workload, error) {
	whole, _ := gang.NewWorkload(m.Kind())
	object := whole.Object().(client.Object)
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(m.clientObject()), object); err != nil {
		return whole, fmt.Errorf("reading %s: %w", m.Meta().Name, err)
	}
	if object.GetResourceVersion() != m.Meta().ResourceVersion {
		return whole, errChildChanging
	}
	return whole, nil
}

// readForQueue reads a member without its volumeClaimTemplates.
func (r *Reconciler) readForQueue(ctx context.Context, m member) (gang.Workload, error) {
	whole, err := r.readWhole(ctx, m)
	if whole.StatefulSet != nil {
		whole.StatefulSet.Spec.VolumeClaimTemplates = nil
	}
	return whole, err
}

// readForPolicy reads a member with all fields, which the rules of a policy can read. It returns the zero value for a
// member that could not be parsed, and for one that was deleted, which causes another pass.
func (r *Reconciler) readForPolicy(ctx context.Context, m member) (gang.Workload, error) {
	if m.Result == nil {
		return gang.Workload{}, nil
	}
	whole, err := r.readWhole(ctx, m)
	if client.IgnoreNotFound(err) != nil && !errors.Is(err, errChildChanging) {
		return whole, fmt.Errorf("comparing with the policy: %w", err)
	}
	if whole.Meta().UID != m.Meta().UID {
		return gang.Workload{}, nil
	}
	return whole, nil
}
