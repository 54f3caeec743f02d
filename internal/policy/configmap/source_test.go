package configmap

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

const (
	validFile = "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\n" +
		"cluster: {limits: {size: {max: 4}}}\n"
	otherFile   = validFile + "contact: '#gpu-admins'\n"
	invalidFile = "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\ncluster: {limits: {sizes: {max: 4}}}\n"
	labelFile   = validFile + "profiles: [{name: a, namespaces: {selector: {matchLabels: {team: a}}}}]\n"
)

var testReader = FileReader{Frameworks: injectors.NewEngine(injectors.Builtin(), gang.Config{}).Frameworks()}

func newConfigMap(name, text string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "rollcall-system", Name: name}}
	if text != "" {
		m.Data = map[string]string{FileKey: text}
	}
	return m
}

// testSource is a running Source and a Keeper with a fake API server.
type testSource struct {
	*Source
	client kubernetes.Interface
	events chan string
}

// startSource starts a Source. The Keeper runs only for a leader.
func startSource(t *testing.T, leader bool, objects ...*corev1.ConfigMap) *testSource {
	t.Helper()
	client := fake.NewClientset()
	for _, o := range objects {
		if _, err := client.CoreV1().ConfigMaps(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return startSourceWithClient(t, leader, client)
}

func startSourceWithClient(t *testing.T, leader bool, client kubernetes.Interface) *testSource {
	t.Helper()
	s := New(Options{
		Client: client, Namespace: "rollcall-system", Name: "rollcall-policy", Reader: testReader,
		Clock: clocktesting.NewFakePassiveClock(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)),
		DescribeNamespace: func(_ context.Context, name string) (policy.Namespace, error) {
			return policy.Namespace{Name: name}, nil
		},
	})
	recorder := events.NewFakeRecorder(100)
	run := func(start func(context.Context) error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := start(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() { <-done }) // the context of the test is done before
	}
	run(s.Start)
	if leader {
		run((&Keeper{Source: s, Recorder: recorder}).Start)
	}
	return &testSource{Source: s, client: client, events: recorder.Events}
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 3000 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: the condition does not hold after 30 s", what)
}

func (s *testSource) write(t *testing.T, m *corev1.ConfigMap) {
	t.Helper()
	maps := s.client.CoreV1().ConfigMaps(m.Namespace)
	_, err := maps.Update(t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hasDigest reports whether the policy of a file is in force.
func (s *testSource) hasDigest(text string) bool {
	want, _, _ := testReader.read(text)
	got, err := s.Current()
	return err == nil && got.Digest() == want.Digest()
}

// TestFailures checks each way in which the file can fail (ADR 0012).
func TestFailures(t *testing.T) {
	accepted := AcceptedName("rollcall-policy")
	for name, test := range map[string]struct {
		objects []*corev1.ConfigMap
		inForce string // the file in force; empty for none
		mistake string // part of the mistake; empty for none
	}{
		"a valid file is in force": {
			objects: []*corev1.ConfigMap{newConfigMap("rollcall-policy", validFile)}, inForce: validFile,
		},
		"a process that starts with an invalid file takes the last valid policy": {
			objects: []*corev1.ConfigMap{newConfigMap("rollcall-policy", invalidFile), newConfigMap(accepted, otherFile)},
			inForce: otherFile, mistake: "policy.yaml:3:20: cluster.limits.sizes: unknown field",
		},
		"a process that starts without the ConfigMap takes the last valid policy": {
			objects: []*corev1.ConfigMap{newConfigMap(accepted, otherFile)},
			inForce: otherFile, mistake: "the ConfigMap rollcall-policy does not exist",
		},
		"an invalid file and no last valid policy is not ready": {
			objects: []*corev1.ConfigMap{newConfigMap("rollcall-policy", invalidFile), newConfigMap(accepted, "")},
			mistake: "the ConfigMap rollcall-policy-accepted has no key policy.yaml",
		},
		"an invalid file and an invalid last policy is not ready": {
			objects: []*corev1.ConfigMap{newConfigMap("rollcall-policy", invalidFile), newConfigMap(accepted, invalidFile)},
			mistake: "there is no last valid policy: policy.yaml:3",
		},
		"no ConfigMap at all is not ready": {mistake: "the ConfigMap rollcall-policy does not exist"},
		"a file that selects labels is not valid without the permission to read namespaces": {
			objects: []*corev1.ConfigMap{newConfigMap("rollcall-policy", labelFile)}, mistake: "policy.readNamespaces",
		},
		"an empty file is a policy without limits": {
			objects: []*corev1.ConfigMap{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "rollcall-system", Name: "rollcall-policy"},
				Data:       map[string]string{FileKey: ""},
			}},
			inForce: "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSource(t, false, test.objects...)
			waitFor(t, "the file is read", func() bool { return s.State().Mistake != "not loaded yet" })
			if got := s.State().Mistake; !strings.Contains(got, test.mistake) || test.mistake == "" && got != "" {
				t.Errorf("the mistake is %q, want %q", got, test.mistake)
			}
			if err := s.Ready(nil); (err == nil) != (test.inForce != "") {
				t.Errorf("Ready returned %v", err)
			}
			if test.inForce != "" && !s.hasDigest(test.inForce) {
				t.Errorf("the policy in force is not %q", test.inForce)
			}
		})
	}
}

// TestReload checks that a valid file replaces the policy, and that an invalid file and a deletion do not,
// also after a restart.
func TestReload(t *testing.T) {
	accepted := AcceptedName("rollcall-policy")
	s := startSource(t, true, newConfigMap("rollcall-policy", validFile), newConfigMap(accepted, ""))
	readAccepted := func() map[string]string {
		m, err := s.client.CoreV1().ConfigMaps("rollcall-system").Get(t.Context(), accepted, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Data
	}
	waitFor(t, "the first policy is accepted", func() bool {
		return s.hasDigest(validFile) && readAccepted()[FileKey] == validFile
	})
	if data := readAccepted(); data["acceptedTime"] != "2027-01-01T00:00:00Z" || data["digest"] == "" {
		t.Errorf("the accepted policy has the data %v, want a time and a digest", data)
	}
	waitForEvent(t, s, "Normal PolicyLoaded The policy is in force")

	s.write(t, newConfigMap("rollcall-policy", otherFile))
	waitFor(t, "the second policy is accepted", func() bool {
		return s.hasDigest(otherFile) && readAccepted()[FileKey] == otherFile
	})
	waitForEvent(t, s, "Normal PolicyLoaded")

	s.write(t, newConfigMap("rollcall-policy", invalidFile))
	waitForEvent(t, s, "Warning PolicyRejected Rollcall rejected the policy, and the last valid policy stays in force: "+
		"policy.yaml:3")
	if !s.hasDigest(otherFile) || readAccepted()[FileKey] != otherFile {
		t.Error("an invalid file replaced the policy")
	}
	restarted := startSourceWithClient(t, false, s.client)
	waitFor(t, "a restarted process has the policy", func() bool { return restarted.hasDigest(otherFile) })

	if err := s.client.CoreV1().ConfigMaps("rollcall-system").
		Delete(t.Context(), "rollcall-policy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the deletion is noticed", func() bool { return strings.Contains(s.State().Mistake, "does not exist") })
	if !s.hasDigest(otherFile) {
		t.Error("the deletion of the ConfigMap removed the policy")
	}

	s.write(t, newConfigMap("rollcall-policy", validFile))
	waitFor(t, "the repaired policy is accepted", func() bool { return readAccepted()[FileKey] == validFile })
}

// waitForEvent waits for the next Event and checks its beginning.
func waitForEvent(t *testing.T, s *testSource, want string) {
	t.Helper()
	select {
	case got := <-s.events:
		if !strings.HasPrefix(got, want) {
			t.Errorf("the Event is %q, want %q", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Errorf("no Event, want %q", want)
	}
}

// TestLateAcceptedPolicy checks that a process without a policy finds the one that appears later.
func TestLateAcceptedPolicy(t *testing.T) {
	s := startSource(t, false, newConfigMap("rollcall-policy", invalidFile))
	waitFor(t, "the file is read", func() bool { return s.State().Mistake != "not loaded yet" })
	s.write(t, newConfigMap(AcceptedName("rollcall-policy"), validFile))
	waitFor(t, "the accepted policy is found", func() bool { return s.Ready(nil) == nil })
}
