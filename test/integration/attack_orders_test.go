package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/test/installation"
)

// testAttackHostOrders writes the hosts of a launcher, as a user before the gang exists and with the credentials of the
// controller. The names of hosts become arguments of ssh.
func testAttackHostOrders(t *testing.T, m *manager, ns string) {
	const usersPolicy = installation.Release + "-written-orders"
	const controllerPolicy = installation.Release + "-manager-orders"
	ofUser := m.Client.CoreV1().ConfigMaps(ns)
	ofController := kubernetes.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), installation.ControllerName)).
		CoreV1().ConfigMaps(ns)
	owner := m.createJob(t, ns, newJob("train", 1))
	newOrder := func(name, hosts string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name:   name,
				Labels: map[string]string{"app.kubernetes.io/managed-by": "rollcall", gang.LabelGang: "train"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "batch/v1", Kind: "Job", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: ptr.To(true),
				}},
			},
			Data: map[string]string{hostfile.OrderKey: hosts},
		}
	}
	const name, hosts = "train-rollcall-hosts-3", "train-worker 2 2\ntrain-worker 0 1"
	if _, err := ofController.Create(t.Context(), newOrder(name, hosts), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(text string) attempt {
		return attempt{usersPolicy, func(ctx context.Context) error {
			_, err := ofUser.Patch(ctx, name, types.MergePatchType, []byte(text), dryRunPatch)
			return err
		}}
	}
	create := func(order *corev1.ConfigMap) attempt {
		return attempt{controllerPolicy, func(ctx context.Context) error {
			_, err := ofController.Create(ctx, order, dryRunCreate)
			return err
		}}
	}
	requireDenied(t, map[string]attempt{
		"order of a later gang": {usersPolicy, func(ctx context.Context) error {
			_, err := ofUser.Create(ctx, newOrder("later-rollcall-hosts-2", hosts), dryRunCreate)
			return err
		}},
		"other hosts":              patch(`{"data":{"hosts":"train-worker 0 0"}}`),
		"ConfigMap of a stranger":  create(newOrder("settings", hosts)),
		"option of ssh":            create(newOrder("train-rollcall-hosts-1", "-oProxyCommand=id;: 0 0")),
		"option after other hosts": create(newOrder("train-rollcall-hosts-1", hosts+"\n-oProxyCommand=id;: 0 0")),
	})
	if err := patch(`{"metadata":{"ownerReferences":null}}`).send(t.Context()); err != nil {
		t.Errorf("the garbage collector cannot remove owners: %v", err)
	}
}
