package check

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"rollcall.training/injectors"
)

// newPolicyFile returns a ConfigMap with a policy that limits the size of gangs.
func newPolicyFile(name, size string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "rollcall-system"}}
	if size != "" {
		m.Data = map[string]string{"policy.yaml": "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\n" +
			"cluster: {limits: {size: {max: " + size + "}}}\n"}
	}
	return m
}

func TestReadPolicyInForce(t *testing.T) {
	controller := newDeployment("controller", "--policy-configmap=p", "--policy-ceiling=audit")
	second := newDeployment("controller")
	second.Namespace, second.Labels[labelInstance] = "second", "second"
	for name, test := range map[string]struct {
		objects []runtime.Object
		place   string
		rules   int
		err     string
	}{
		"the accepted policy, not the written one": {
			objects: []runtime.Object{controller, newPolicyFile("p", "many"), newPolicyFile("p-accepted", "8")},
			place:   "rollcall-system/p-accepted", rules: 1,
		},
		"the written policy before the leader accepts it": {
			objects: []runtime.Object{controller, newPolicyFile("p", "8"), newPolicyFile("p-accepted", "")},
			place:   "rollcall-system/p", rules: 1,
		},
		"an invalid policy": {
			objects: []runtime.Object{controller, newPolicyFile("p", "many")},
			err:     "the policy in rollcall-system/p is not valid",
		},
		"no ConfigMap":        {objects: []runtime.Object{controller}, err: "reading the ConfigMap rollcall-system/p"},
		"no policy":           {objects: []runtime.Object{newDeployment("controller")}, err: "has no policy"},
		"no installation":     {err: "the cluster has no Deployment of Rollcall"},
		"two releases":        {objects: []runtime.Object{controller, second}, err: "set --release-namespace"},
		"only the webhook":    {objects: []runtime.Object{newDeployment("webhook")}, err: "has no policy"},
		"a foreign ConfigMap": {objects: []runtime.Object{controller, newPolicyFile("q", "8")}, err: "reading the ConfigMap"},
	} {
		t.Run(name, func(t *testing.T) {
			reader, _ := newFakeReader(test.objects...)
			reader.Frameworks = injectors.Builtin().Frameworks()
			p, place, err := reader.ReadPolicyInForce(t.Context())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || place != test.place || len(p.EnabledRules()) != test.rules {
				t.Fatalf("policy of %q with the rules %v: %v", place, p.EnabledRules(), err)
			}
			if p.CanDeny() {
				t.Error("the ceiling audit is ignored")
			}
		})
	}
}
