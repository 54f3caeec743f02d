package configmap

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
)

// FieldManager is the field manager of the ConfigMap with the last valid policy.
const FieldManager = "rollcall-policy"

// Keys of the ConfigMap with the last valid policy, besides [FileKey].
const (
	digestKey       = "digest"
	acceptedTimeKey = "acceptedTime"
)

// eventActionLoadPolicy is the action of the Events about the policy.
const eventActionLoadPolicy = "LoadPolicy"

// Keeper writes the last valid policy to a ConfigMap, and Events about the policy. It is a
// controller-runtime Runnable of the leader, because one process is enough. The ConfigMap must exist:
// the chart creates it, so that the manager needs no permission to create ConfigMaps.
type Keeper struct {
	// Source provides the policy.
	Source *Source
	// Recorder records Events on the ConfigMap with the policy.
	Recorder events.EventRecorder
}

// NeedLeaderElection returns true.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Start records the policies until ctx is done. It logs errors and retries.
func (k *Keeper) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("policy")
	changed := k.Source.Subscribe()
	var reported string
	for {
		state := k.Source.State()
		if key := state.Policy.Digest() + state.Mistake; state.ConfigMap != nil && key != reported {
			k.recordEvent(state)
			reported = key
		}
		var retry <-chan time.Time
		if err := k.writeAccepted(ctx, state); err != nil && ctx.Err() == nil {
			logger.Error(err, "Writing the last valid policy failed, retrying")
			retry = time.After(retryInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		}
	}
}

// recordEvent records whether the policy of the ConfigMap is in force.
func (k *Keeper) recordEvent(s State) {
	if s.Mistake != "" {
		note := "Rollcall rejected the policy, and the last valid policy stays in force: " + s.Mistake
		if s.Policy == nil {
			note = "Rollcall rejected the policy, and denies labeled workloads until it is valid: " + s.Mistake
		}
		k.Recorder.Eventf(s.ConfigMap, nil, corev1.EventTypeWarning, string(gang.ReasonPolicyRejected),
			eventActionLoadPolicy, "%s", gang.ShortenText(note))
		return
	}
	note := "The policy is in force"
	if len(s.Policy.Rules()) == 0 {
		note = "The policy is in force and has no limits and rules, so it denies nothing"
	}
	k.Recorder.Eventf(s.ConfigMap, nil, corev1.EventTypeNormal, string(gang.ReasonPolicyLoaded),
		eventActionLoadPolicy, "%s", note)
}

// writeAccepted writes the policy of the ConfigMap, unless it is not valid or was written before.
func (k *Keeper) writeAccepted(ctx context.Context, s State) error {
	if s.Mistake != "" {
		return nil
	}
	o := k.Source.options
	name, client := AcceptedName(o.Name), o.Client.CoreV1().ConfigMaps(o.Namespace)
	last, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the ConfigMap %s does not exist; the chart creates it", name)
	}
	if err != nil {
		return fmt.Errorf("reading the ConfigMap %s: %w", name, err)
	}
	if last.Data[FileKey] == s.Text && last.Data[digestKey] == s.Policy.Digest() {
		return nil
	}
	apply := corev1ac.ConfigMap(name, o.Namespace).WithUID(last.UID).WithData(map[string]string{
		FileKey:         s.Text,
		digestKey:       s.Policy.Digest(),
		acceptedTimeKey: o.Clock.Now().UTC().Format(time.RFC3339),
	})
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true}
	if _, err := client.Apply(ctx, apply, options); err != nil {
		return fmt.Errorf("applying the ConfigMap %s: %w", name, err)
	}
	return nil
}
