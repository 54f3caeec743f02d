package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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

// acquireWholeReads waits until a pass may keep whole workloads, and returns the function that ends it.
func acquireWholeReads(ctx context.Context, members []member) (func(), error) {
	n := int64(min(len(members), maxConcurrentReconciles))
	if err := wholeReads.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("waiting for the reads of other gangs: %w", err)
	}
	return func() { wholeReads.Release(n) }, nil
}

// wholeBytes is the memory of the whole workloads that a pass has read.
type wholeBytes int

// add counts a workload. The error is errTooMuchMemory beyond the maximum.
func (b *wholeBytes) add(w gang.Workload) error {
	if *b += wholeBytes(gang.MeasureMemory(w.Object(), math.MaxInt)); *b > maxWholeBytes {
		return errTooMuchMemory
	}
	return nil
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

// useWholes calls a function with members and their whole workloads in the API server, but without their
// volumeClaimTemplates.
func (r *Reconciler) useWholes(ctx context.Context, members []member, use func([]member) error) error {
	release, err := acquireWholeReads(ctx, members)
	if err != nil {
		return err
	}
	defer release()
	var bytes wholeBytes
	out := slices.Clone(members)
	for i := range out {
		whole, err := r.readWhole(ctx, out[i])
		if err != nil {
			return err
		}
		if whole.StatefulSet != nil {
			whole.StatefulSet.Spec.VolumeClaimTemplates = nil
		}
		if err := bytes.add(whole); err != nil {
			return err
		}
		out[i].Workload = whole
	}
	return use(out)
}

// readForPolicy returns the members that exist with their whole workloads. Rules can read each field, so the members
// are read from the API server: the cache contains only a part of them.
func (r *Reconciler) readForPolicy(ctx context.Context, members []member) ([]member, error) {
	var out []member
	var bytes wholeBytes
	for _, m := range members {
		if m.Result == nil {
			continue
		}
		whole, err := r.readWhole(ctx, m)
		if client.IgnoreNotFound(err) != nil && !errors.Is(err, errChildChanging) {
			return nil, fmt.Errorf("comparing with the policy: %w", err)
		}
		if whole.Meta().UID != m.Meta().UID {
			continue // deleted, which causes another pass
		}
		if err := bytes.add(whole); err != nil {
			return nil, err
		}
		m.Workload = whole
		out = append(out, m)
	}
	return out, nil
}
