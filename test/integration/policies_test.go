package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// The policies that limit the managers.
const (
	workloadsPolicy = installation.Release + "-manager-workloads"
	podsPolicy      = installation.Release + "-manager-pods"
	servicesPolicy  = installation.Release + "-manager-services"
	secretsPolicy   = installation.Release + "-manager-secrets"
	webhooksPolicy  = installation.Release + "-manager-webhooks"
	queuedPolicy    = installation.Release + "-manager-queued-gangs"
	reportsPolicy   = installation.Release + "-manager-reports"
	recordedPolicy  = installation.Release + "-manager-policy"
	keysPolicy      = installation.Release + "-written-keys"
)

// newManagerConfig returns a client configuration with the credentials of a ServiceAccount of the chart.
func newManagerConfig(t *testing.T, admin *rest.Config, account string) *rest.Config {
	t.Helper()
	token, err := kubernetes.NewForConfigOrDie(admin).CoreV1().ServiceAccounts(installation.Namespace).
		CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	return config
}

// attempt is a request that a policy must deny.
type attempt struct {
	policy string
	send   func(context.Context) error
}

// requireDenied sends each request until its policy denies it: a new policy takes effect after a
// moment. The requests are dry runs, so that none of them changes the cluster.
func requireDenied(t *testing.T, attempts map[string]attempt) {
	t.Helper()
	for name, a := range attempts {
		t.Run(name, func(t *testing.T) {
			wait.For(t, "the denial", func(ctx context.Context) error {
				err := a.send(ctx)
				if err == nil {
					return errors.New("the request was permitted")
				}
				if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+a.policy+"'") {
					return fmt.Errorf("the policy %s did not deny the request: %w", a.policy, err)
				}
				return nil
			})
		})
	}
}

var (
	dryRunPatch  = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	dryRunCreate = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	dryRunDelete = metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
)

// managerAttempts creates requests with the credentials of the managers.
type managerAttempts struct {
	client kubernetes.Interface
	ns     string
}

func (a managerAttempts) patchJob(name, patch string, subresources ...string) attempt {
	return attempt{workloadsPolicy, func(ctx context.Context) error {
		_, err := a.client.BatchV1().Jobs(a.ns).
			Patch(ctx, name, types.MergePatchType, []byte(patch), dryRunPatch, subresources...)
		return err
	}}
}

func (a managerAttempts) patchStatefulSet(name, patch string, subresources ...string) attempt {
	return attempt{workloadsPolicy, func(ctx context.Context) error {
		_, err := a.client.AppsV1().StatefulSets(a.ns).
			Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), dryRunPatch, subresources...)
		return err
	}}
}

func (a managerAttempts) patchService(name, patch string) attempt {
	return attempt{servicesPolicy, func(ctx context.Context) error {
		_, err := a.client.CoreV1().Services(a.ns).Patch(ctx, name, types.MergePatchType, []byte(patch), dryRunPatch)
		return err
	}}
}

func (a managerAttempts) createSecret(ns string, secret corev1.Secret) attempt {
	return attempt{secretsPolicy, func(ctx context.Context) error {
		_, err := a.client.CoreV1().Secrets(ns).Create(ctx, &secret, dryRunCreate)
		return err
	}}
}

func (a managerAttempts) patchWebhooks(patch string) attempt {
	return attempt{webhooksPolicy, func(ctx context.Context) error {
		_, err := a.client.AdmissionregistrationV1().MutatingWebhookConfigurations().
			Patch(ctx, installation.Release, types.JSONPatchType, []byte(patch), dryRunPatch)
		return err
	}}
}

// testManagerPolicies sends requests with the credentials of the managers that RBAC permits and that
// would give more rights than Rollcall needs.
func testManagerPolicies(t *testing.T, m *manager, ns string) {
	createVictims(t, m, ns)
	newAttempts := func(account string) managerAttempts {
		return managerAttempts{kubernetes.NewForConfigOrDie(newManagerConfig(t, m.Cluster.Config(), account)), ns}
	}
	controller, webhook := newAttempts(installation.ControllerName), newAttempts(installation.WebhookName)
	t.Run("Workloads", func(t *testing.T) { testWorkloadAttempts(t, controller) })
	t.Run("Pods", func(t *testing.T) { testPodAttempts(t, controller) })
	t.Run("Services", func(t *testing.T) { testServiceAttempts(t, controller) })
	t.Run("Secrets", func(t *testing.T) { testSecretAttempts(t, controller) })
	t.Run("Authority", func(t *testing.T) { testAuthorityAttempts(t, controller, webhook) })
	t.Run("Webhooks", func(t *testing.T) { testWebhookAttempts(t, webhook) })
}

// createVictims creates a gang of a Job and one of a StatefulSet, and objects of no gang.
func createVictims(t *testing.T, m *manager, ns string) {
	t.Helper()
	ctx, options := t.Context(), metav1.CreateOptions{}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m.createJob(t, ns, newJob("train", 2))
	m.createStatefulSet(t, ns, newStatefulSet("ranks", 2))
	limited := newJob("limited", 2)
	limited.Spec.BackoffLimit = ptr.To[int32](3)
	m.createJob(t, ns, limited)
	suspended := newJob("suspended", 2)
	suspended.Spec.Suspend = new(true)
	m.createJob(t, ns, suspended)
	unlabeledJob, unlabeledSet := newJob("other", 1), newStatefulSet("other", 1)
	unlabeledJob.Labels, unlabeledSet.Labels = nil, nil
	m.createJob(t, ns, unlabeledJob)
	m.createStatefulSet(t, ns, unlabeledSet)
	must(m.Client.CoreV1().Services(ns).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "other"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, options))
	must(m.Client.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "example.com/other:1"}}},
	}, options))
	m.waitForService(t, ns, "train")
}

func testWorkloadAttempts(t *testing.T, a managerAttempts) {
	const (
		otherImage   = `{"spec":{"template":{"spec":{"containers":[{"name":"trainer","image":"example.com/evil:1"}]}}}}`
		otherCommand = `{"spec":{"template":{"spec":{"containers":[{"name":"trainer","command":["evil"]}]}}}}`
		otherAccount = `{"spec":{"template":{"spec":{"serviceAccountName":"admin"}}}}`
		secretVolume = `{"spec":{"template":{"spec":{"volumes":[{"name":"s","secret":{"secretName":"s"}}]}}}}`
		secretEnv    = `{"spec":{"template":{"spec":{"containers":[{"name":"trainer","env":` +
			`[{"name":"RANK_TOKEN","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]}}}}`
		preload = `{"spec":{"template":{"spec":{"containers":[{"name":"trainer","env":` +
			`[{"name":"LD_PRELOAD","value":"/tmp/evil.so"}]}]}}}}`
		initContainer = `{"spec":{"template":{"spec":{"initContainers":[{"name":"evil","image":"example.com/evil:1"}]}}}}`
		hostNetwork   = `{"spec":{"template":{"spec":{"hostNetwork":true}}}}`
		annotation    = `{"spec":{"template":{"metadata":{"annotations":{"vault.hashicorp.com/agent-inject":"true"}}}}}`
		gangStatus    = `{"metadata":{"annotations":{"rollcall.training/status":"{}"}}}`
	)
	requireDenied(t, map[string]attempt{
		"image of a StatefulSet of no gang":          a.patchStatefulSet("other", otherImage),
		"ServiceAccount of a StatefulSet of no gang": a.patchStatefulSet("other", otherAccount),
		"Secret volume in a StatefulSet of no gang":  a.patchStatefulSet("other", secretVolume),
		"replicas of a StatefulSet of no gang":       a.patchStatefulSet("other", `{"spec":{"replicas":0}}`),
		"label on a Job of no gang": a.patchJob("other",
			`{"metadata":{"labels":{"rollcall.training/framework":"pytorch"}}}`),
		"image of a gang":                  a.patchStatefulSet("ranks", otherImage),
		"command of a gang":                a.patchStatefulSet("ranks", otherCommand),
		"ServiceAccount of a gang":         a.patchStatefulSet("ranks", otherAccount),
		"Secret volume in a gang":          a.patchStatefulSet("ranks", secretVolume),
		"Secret in a variable of a gang":   a.patchStatefulSet("ranks", secretEnv),
		"preloaded library in a gang":      a.patchStatefulSet("ranks", preload),
		"init container in a gang":         a.patchStatefulSet("ranks", initContainer),
		"host network of a gang":           a.patchStatefulSet("ranks", hostNetwork),
		"annotation of the pods of a gang": a.patchStatefulSet("ranks", annotation),
		"more pods than the gang has":      a.patchStatefulSet("ranks", `{"spec":{"replicas":50}}`),
		"framework label of a gang": a.patchStatefulSet("ranks",
			`{"metadata":{"labels":{"rollcall.training/framework":null}}}`),
		"owner of a gang": a.patchStatefulSet("ranks",
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`),
		"status of a StatefulSet":        a.patchStatefulSet("ranks", `{"status":{"currentRevision":"evil"}}`, "status"),
		"suspension of a Job of no gang": a.patchJob("other", `{"spec":{"suspend":true}}`),
		"deadline of a Job of no gang":   a.patchJob("other", `{"spec":{"activeDeadlineSeconds":0}}`),
		"status of a Job of no gang":     a.patchJob("other", gangStatus, "status"),
		"parallelism of a gang":          a.patchJob("train", `{"spec":{"parallelism":50,"completions":50}}`),
		"time to live of a gang":         a.patchJob("train", `{"spec":{"ttlSecondsAfterFinished":0}}`),
		"limit of a gang":                a.patchJob("limited", `{"spec":{"backoffLimit":4}}`),
		"finalizer of a gang": a.patchJob("train",
			`{"metadata":{"finalizers":["example.com/blocks-deletion"]}}`),
		"completion of a gang":          a.patchJob("train", `{"status":{"failed":2}}`, "status"),
		"condition Suspended of a gang": a.patchJob("train", suspendedCondition("True"), "status"),
		"condition SuccessCriteriaMet of a gang": a.patchJob("train",
			`{"status":{"conditions":[{"type":"SuccessCriteriaMet","status":"True"}]}}`, "status"),
	})
	t.Run("a suspended Job changes only the nodes that it excludes", func(t *testing.T) { testAffinityAttempts(t, a) })
	t.Run("the condition Suspended is withdrawn", func(t *testing.T) { testWithdrawnCondition(t, a) })
}

// testAffinityAttempts checks that the controller may exclude nodes by their names from the template of a suspended
// Job, and prefer others to them, and may not select nodes.
func testAffinityAttempts(t *testing.T, a managerAttempts) {
	patch := func(affinity string) attempt {
		return a.patchJob("suspended", `{"spec":{"template":{"spec":{"affinity":`+affinity+`}}}}`)
	}
	required := func(terms string) string {
		return `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` + terms + `}}}`
	}
	preferred := func(expressions string) string {
		return `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,` +
			`"preference":{"matchExpressions":[` + expressions + `]}}]}}`
	}
	const exclusion = `{"key":"kubernetes.io/hostname","operator":"NotIn","values":["node-a"]}`
	requireDenied(t, map[string]attempt{
		"selection of a node": patch(required(
			`[{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["node-a"]}]}]`)),
		"exclusion of other nodes": patch(required(
			`[{"matchExpressions":[{"key":"example.com/gpu","operator":"NotIn","values":["a100"]}]}]`)),
		"selection of a node next to an exclusion": patch(required(
			`[{"matchExpressions":[` + exclusion + `],` +
				`"matchFields":[{"key":"metadata.name","operator":"In","values":["node-a"]}]}]`)),
		"exclusions of which each node satisfies one": patch(required(
			`[{"matchExpressions":[` + exclusion + `]},{"matchExpressions":[` +
				strings.Replace(exclusion, "node-a", "node-b", 1) + `]}]`)),
		"preferred node": patch(preferred(strings.Replace(exclusion, "NotIn", "In", 1))),
		"preference of other nodes next to an exclusion": patch(preferred(
			exclusion + `,{"key":"example.com/gpu","operator":"NotIn","values":["a100"]}`)),
		"node selector": a.patchJob("suspended", `{"spec":{"template":{"spec":{"nodeSelector":{"k":"v"}}}}}`),
		"toleration":    a.patchJob("suspended", `{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}`),
	})
	for name, allowed := range map[string]attempt{
		"exclusion of a node":   patch(required(`[{"matchExpressions":[` + exclusion + `]}]`)),
		"preference of others":  patch(preferred(exclusion)),
		"end of the preference": patch(`null`),
	} {
		if err := allowed.send(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// suspendedCondition returns a patch that sets the condition Suspended of a Job.
func suspendedCondition(status string) string {
	return `{"status":{"conditions":[{"type":"Suspended","status":"` + status + `"}]}}`
}

// testWithdrawnCondition checks that the controller may set the condition Suspended to false if it exists.
func testWithdrawnCondition(t *testing.T, a managerAttempts) {
	wait.For(t, "the condition Suspended", func(ctx context.Context) error {
		job, err := a.client.BatchV1().Jobs(a.ns).Get(ctx, "suspended", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(job.Status.Conditions) != 1 || job.Status.Conditions[0].Type != batchv1.JobSuspended {
			return fmt.Errorf("the conditions are %v", job.Status.Conditions)
		}
		return nil
	})
	if err := a.patchJob("suspended", suspendedCondition("False"), "status").send(t.Context()); err != nil {
		t.Error(err)
	}
}

func testPodAttempts(t *testing.T, a managerAttempts) {
	pods := a.client.CoreV1().Pods(a.ns)
	requireDenied(t, map[string]attempt{
		"deletion of all pods of a namespace": {podsPolicy, func(ctx context.Context) error {
			return pods.DeleteCollection(ctx, dryRunDelete, metav1.ListOptions{})
		}},
		"status of a pod of no gang": {podsPolicy, func(ctx context.Context) error {
			patch := []byte(`{"status":{"phase":"Failed"}}`)
			_, err := pods.Patch(ctx, "other", types.MergePatchType, patch, dryRunPatch, "status")
			return err
		}},
		"labels of a pod": {podsPolicy, func(ctx context.Context) error {
			patch := []byte(`{"metadata":{"labels":{"k8s-app":"kube-dns"}}}`)
			_, err := pods.Patch(ctx, "other", types.MergePatchType, patch, dryRunPatch, "status")
			return err
		}},
	})
}

func testServiceAttempts(t *testing.T, a managerAttempts) {
	services := a.client.CoreV1().Services(a.ns)
	gangService := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:            "public",
			Labels:          map[string]string{"app.kubernetes.io/managed-by": "rollcall", gang.LabelGang: "public"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "x", UID: "x"}},
		},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{gang.LabelGang: "public"},
			Ports: []corev1.ServicePort{{Port: 80}}},
	}
	published := gangService.DeepCopy()
	published.Annotations = map[string]string{"external-dns.alpha.kubernetes.io/hostname": "login.example.com"}
	createService := func(s *corev1.Service) attempt {
		return attempt{servicesPolicy, func(ctx context.Context) error {
			_, err := services.Create(ctx, s, dryRunCreate)
			return err
		}}
	}
	t.Run("a Service of a gang is permitted", func(t *testing.T) {
		if err := createService(gangService).send(t.Context()); err != nil {
			t.Error(err)
		}
	})
	requireDenied(t, map[string]attempt{
		"annotation of a new Service": createService(published),
		"annotation of the gang's Service": a.patchService("train",
			`{"metadata":{"annotations":{"external-dns.alpha.kubernetes.io/hostname":"login.example.com"}}}`),
		"selector of another Service":     a.patchService("other", `{"spec":{"selector":{"app":"evil"}}}`),
		"external IP of another Service":  a.patchService("other", `{"spec":{"externalIPs":["192.0.2.1"]}}`),
		"selector of the gang's Service":  a.patchService("train", `{"spec":{"selector":{"rollcall.training/gang":"x"}}}`),
		"external IP of a gang's Service": a.patchService("train", `{"spec":{"externalIPs":["192.0.2.1"]}}`),
		"deletion of a Service": {servicesPolicy, func(ctx context.Context) error {
			return services.Delete(ctx, "other", dryRunDelete)
		}},
		"load balancer": {servicesPolicy, func(ctx context.Context) error {
			_, err := services.Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "balancer", Labels: map[string]string{
					"app.kubernetes.io/managed-by": "rollcall", gang.LabelGang: "train"}},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
			}, dryRunCreate)
			return err
		}},
	})
}

// newKeyPairSecret returns the Secret with a key pair of a gang, as the controller creates it.
func newKeyPairSecret(gangName, owner string, uid types.UID) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:            gangName + "-rollcall-ssh",
			Labels:          map[string]string{"app.kubernetes.io/managed-by": "rollcall", gang.LabelGang: gangName},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: owner, UID: uid}},
		},
		Type: corev1.SecretTypeSSHAuth, Immutable: new(true),
		StringData: map[string]string{corev1.SSHAuthPrivateKey: "x", "ssh-publickey": "x"},
	}
}

func testSecretAttempts(t *testing.T, a managerAttempts) {
	keyPair := *newKeyPairSecret("train", "train", "x")
	accountToken := corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
		Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}}
	bootstrapToken := corev1.Secret{Type: corev1.SecretTypeBootstrapToken,
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"},
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef",
			"usage-bootstrap-authentication": "true"}}
	otherName, ownerless, mutable := *keyPair.DeepCopy(), *keyPair.DeepCopy(), *keyPair.DeepCopy()
	otherName.Name, ownerless.OwnerReferences, mutable.Immutable = "tls", nil, nil
	requireDenied(t, map[string]attempt{
		"bootstrap token":                       a.createSecret(metav1.NamespaceSystem, bootstrapToken),
		"token of a ServiceAccount":             a.createSecret(a.ns, accountToken),
		"token of another account in own ns":    a.createSecret(installation.Namespace, accountToken),
		"key pair in kube-system":               a.createSecret(metav1.NamespaceSystem, keyPair),
		"key pair of another name":              a.createSecret(a.ns, otherName),
		"key pair that is never deleted":        a.createSecret(a.ns, ownerless),
		"key pair that can be changed":          a.createSecret(a.ns, mutable),
		"any Secret in the manager's namespace": a.createSecret(installation.Namespace, keyPair),
	})
	t.Run("the key pair of a gang is permitted", func(t *testing.T) {
		if _, err := a.client.CoreV1().Secrets(a.ns).Create(t.Context(), &keyPair, dryRunCreate); err != nil {
			t.Error(err)
		}
	})
}

// testAuthorityAttempts checks that the webhook cannot delete its certificate authority and cannot create
// other Secrets, and that the controller cannot replace the authority while it does not exist.
func testAuthorityAttempts(t *testing.T, controller, webhook managerAttempts) {
	authority := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "rollcall-ca"}}
	other := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	requireDenied(t, map[string]attempt{
		"authority of the controller":   controller.createSecret(installation.Namespace, authority),
		"another Secret of the webhook": webhook.createSecret(installation.Namespace, other),
		"deletion of the authority": {secretsPolicy, func(ctx context.Context) error {
			return webhook.client.CoreV1().Secrets(installation.Namespace).Delete(ctx, "rollcall-ca", dryRunDelete)
		}},
	})
}

func testWebhookAttempts(t *testing.T, a managerAttempts) {
	requireDenied(t, map[string]attempt{
		"rules of a webhook": a.patchWebhooks(
			`[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["*"]}]`),
		"selector of a webhook": a.patchWebhooks(`[{"op":"remove","path":"/webhooks/0/objectSelector"}]`),
		"URL of a webhook": a.patchWebhooks(
			`[{"op":"replace","path":"/webhooks/0/clientConfig","value":{"url":"https://evil.example.com"}}]`),
		"removal of a webhook": a.patchWebhooks(`[{"op":"remove","path":"/webhooks/0"}]`),
		"label of a configuration": a.patchWebhooks(
			`[{"op":"add","path":"/metadata/labels/evil","value":"x"}]`),
	})
}

// testWrittenKeysPolicy checks who may change the label and the annotations of Rollcall, with a client
// that has all permissions.
func testWrittenKeysPolicy(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newJob("train", 2))
	m.createStatefulSet(t, ns, newStatefulSet("ranks", 2))
	jobs, sets := m.Client.BatchV1().Jobs(ns), m.Client.AppsV1().StatefulSets(ns)
	pods := m.waitForPods(t, ns, "train", 2)
	m.setPodPhases(t, pods, corev1.PodRunning)
	m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
	patchJob := func(patch string, subresources ...string) attempt {
		return attempt{keysPolicy, func(ctx context.Context) error {
			_, err := jobs.Patch(ctx, "train", types.MergePatchType, []byte(patch), dryRunPatch, subresources...)
			return err
		}}
	}
	patchSet := func(patch string) attempt {
		return attempt{keysPolicy, func(ctx context.Context) error {
			_, err := sets.Patch(ctx, "ranks", types.MergePatchType, []byte(patch), dryRunPatch)
			return err
		}}
	}
	annotate := func(key, value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	}
	forgedRestart := `{"version":1,"phase":"Restarting","restarts":-1000000,"internal":{"suspendedByRollcall":true}}`
	requireDenied(t, map[string]attempt{
		"phase of a Job":          patchJob(`{"metadata":{"labels":{"rollcall.training/phase":"Succeeded"}}}`),
		"size of a Job":           patchJob(`{"metadata":{"labels":{"rollcall.training/size":"1"}}}`),
		"status of a Job":         patchJob(annotate(gang.AnnotationStatus, forgedRestart)),
		"status in jobs/status":   patchJob(annotate(gang.AnnotationStatus, forgedRestart), "status"),
		"record of a Job":         patchJob(annotate(gang.AnnotationInjected, `{"injector":"pytorch"}`)),
		"status of a StatefulSet": patchSet(annotate(gang.AnnotationStatus, forgedRestart)),
		"record without admission": patchSet(`{"metadata":{"labels":{"rollcall.training/inject":"false"},` +
			`"annotations":{"rollcall.training/injected":"{\"replicas\":5000}"}}}`),
	})
	for name, send := range map[string]func() error{
		"the size of a StatefulSet changes, and admission writes the record": func() error {
			return patchSet(`{"spec":{"replicas":3}}`).send(t.Context())
		},
		"admission restores the record of a StatefulSet": func() error {
			return patchSet(annotate(gang.AnnotationInjected, `{"replicas":5000}`)).send(t.Context())
		},
		"a Job is suspended": func() error { return patchJob(`{"spec":{"suspend":true}}`).send(t.Context()) },
		"a Job is replaced by a manifest without the keys": func() error {
			job, err := jobs.Get(t.Context(), "train", metav1.GetOptions{})
			if err != nil {
				return err
			}
			job.Annotations = nil
			delete(job.Labels, gang.LabelPhase)
			_, err = jobs.Update(t.Context(), job, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := send(); err != nil {
				t.Error(err)
			}
		})
	}
}
