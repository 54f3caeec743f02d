package injection

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// testFramework is the framework of all tests of this package.
var testFramework = gang.Framework{
	Name: "test", Roles: []gang.Role{{Name: "worker"}}, DefaultRole: "worker", Port: 7000, PortName: "test",
}

// newTestJob returns a Job of two pods with the given changes.
func newTestJob(changes ...func(*batchv1.Job)) gang.Workload {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "team", Labels: map[string]string{gang.LabelFramework: "test"},
			Annotations: map[string]string{},
		},
		Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2)},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer"}}
	for _, change := range changes {
		change(job)
	}
	return gang.Workload{Job: job}
}

func withEnv(env ...corev1.EnvVar) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		c := &j.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, env...)
	}
}

func withFieldEnv(name, path string) func(*batchv1.Job) {
	return withEnv(plan.FieldEnv(name, path).EnvVar)
}

func withLabel(name, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { SetKey(&j.Spec.Template.Labels, name, value) }
}

func withMount(volume, path string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		c := &j.Spec.Template.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path})
	}
}

// withInjection injects a plan, as an earlier admission did.
func withInjection(t *testing.T, p plan.Plan) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		if _, denials := applyTo(t, gang.Workload{Job: j}, p); len(denials) > 0 {
			t.Fatal(denials.ErrorList().ToAggregate())
		}
	}
}

func applyTo(t *testing.T, w gang.Workload, p plan.Plan) (gang.Warnings, gang.Denials) {
	t.Helper()
	g, _, denials := gang.Parse(w, gang.Frameworks{testFramework}, gang.Config{})
	if len(denials) > 0 {
		t.Fatal(denials.ErrorList().ToAggregate())
	}
	return Apply(w, g, p, "")
}

// newEnvPlan returns a plan of the variable V.
func newEnvPlan(value string, policy plan.ConflictPolicy, meaning plan.Meaning) plan.Plan {
	return plan.Plan{Env: []plan.Env{plan.LiteralEnv("V", value).WithPolicy(policy).WithMeaning(meaning)}}
}

func newRankPlan(policy plan.ConflictPolicy) plan.Plan {
	path := plan.PodLabelFieldPath(batchv1.JobCompletionIndexAnnotation)
	return plan.Plan{Env: []plan.Env{plan.FieldEnv("V", path).WithMeaning(plan.Rank).WithPolicy(policy)}}
}

func newLabelPlan(policy plan.ConflictPolicy) plan.Plan {
	return plan.Plan{PodLabels: []plan.Label{{Name: "l", Value: "planned", Policy: policy}}}
}

func newMountPlan(policy plan.ConflictPolicy) plan.Plan {
	return plan.Plan{Volumes: []plan.Volume{{
		Volume: corev1.Volume{Name: "planned"}, Mounts: []corev1.VolumeMount{{MountPath: "/planned"}}, Policy: policy,
	}}}
}

// TestOutcomes checks what happens to values of users: the rows of the table outcomes for each kind of values.
// A conflict of a policy has the same outcome for each kind.
func TestOutcomes(t *testing.T) {
	type outcomeCase struct {
		job      func(*batchv1.Job) // what the user and earlier admissions wrote; nil for nothing
		plan     plan.Plan
		want     outcome
		wantText string // part of the warning or of the denial
	}
	fromConfigMap := withEnv(corev1.EnvVar{Name: "V", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "v"}}})
	userEnv := withEnv(corev1.EnvVar{Name: "V", Value: "user"})
	cases := map[string]outcomeCase{
		"an absent variable is written": {plan: newEnvPlan("planned", plan.Required, plan.Text), want: write},
		"a variable of an earlier injection is replaced": {
			job:  withInjection(t, newEnvPlan("earlier", plan.Required, plan.Text)),
			plan: newEnvPlan("planned", plan.Required, plan.Text), want: write,
		},
		"an edited variable of an earlier injection belongs to the user": {
			job: func(j *batchv1.Job) {
				withInjection(t, newEnvPlan("earlier", plan.Required, plan.Text))(j)
				env := j.Spec.Template.Spec.Containers[0].Env
				env[len(env)-1].Value = "user"
			},
			plan: newEnvPlan("planned", plan.Required, plan.Text), want: deny,
			wantText: "but was changed after Rollcall injected it; remove the entry",
		},
		"an equal variable stays": {
			job: userEnv, plan: newEnvPlan("user", plan.Required, plan.Text), want: keep,
		},
		"a short name of rank 0 has the same meaning": {
			job:  withEnv(corev1.EnvVar{Name: "V", Value: "train-0.train"}),
			plan: newEnvPlan("train-0.train.team.svc.cluster.local", plan.Required, plan.Address), want: keep,
		},
		"any text turns a switch on": {job: userEnv, plan: newEnvPlan("1", plan.Required, plan.Switch), want: keep},
		"a range with equal bounds is a number of pods": {
			job:  withEnv(corev1.EnvVar{Name: "V", Value: "2:2"}),
			plan: newEnvPlan("2", plan.Required, plan.PodCount), want: keep,
		},
		"an annotation of the pod with the index is the rank": {
			job:  withFieldEnv("V", "metadata.annotations['"+batchv1.JobCompletionIndexAnnotation+"']"),
			plan: newRankPlan(plan.Required), want: keep,
		},
		"a field that is not the rank": {
			job: withFieldEnv("V", "status.podIP"), plan: newRankPlan(plan.Required), want: deny, wantText: "valueFrom",
		},
		"an absent label is written": {plan: newLabelPlan(plan.Required), want: write},
		"a label of an earlier injection is replaced": {
			job:  withInjection(t, newLabelPlan(plan.Required)),
			plan: newLabelPlan(plan.Required), want: write,
		},
		"an equal label stays": {
			job:  withLabel("l", "planned"),
			plan: newLabelPlan(plan.Required), want: keep,
		},
		"an absent mount is written": {plan: newMountPlan(plan.Required), want: write},
		"an equal mount stays": {
			job:  withMount("planned", "/planned"),
			plan: newMountPlan(plan.Required), want: keep,
		},
		"another path of the mount is the same path": {
			job:  withMount("planned", "/planned/"),
			plan: newMountPlan(plan.Required), want: keep,
		},
		"a mount of an earlier injection is replaced": {
			job:  withInjection(t, newMountPlan(plan.Required)),
			plan: newMountPlan(plan.Required), want: write,
		},
		"a command of the user stays": {
			job:  withCommand("user"),
			plan: plan.Plan{Command: []string{"planned"}}, want: keep,
		},
		"an absent command is written": {plan: plan.Plan{Command: []string{"planned"}}, want: write},
		"a search domain of the user stays": {
			job:  withSearch("planned"),
			plan: plan.Plan{DNSSearches: []string{"planned"}}, want: keep,
		},
		"an absent toleration is written": {plan: newTolerationPlan(30), want: write},
		"a toleration of the user stays": {
			job: withToleration(corev1.Toleration{Key: "lost", Effect: "NoExecute"}), plan: newTolerationPlan(30), want: keep,
		},
		"a toleration of the user for all effects stays": {
			job: withToleration(corev1.Toleration{Key: "lost"}), plan: newTolerationPlan(30), want: keep,
		},
		"a toleration of the user for all taints stays": {
			job: withToleration(corev1.Toleration{Operator: "Exists"}), plan: newTolerationPlan(30), want: keep,
		},
		"a toleration of the user has another effect": {
			job: withToleration(corev1.Toleration{Key: "lost", Effect: "NoSchedule"}), plan: newTolerationPlan(30), want: write,
		},
		"a toleration of an earlier injection is replaced": {
			job: withInjection(t, newTolerationPlan(60)), plan: newTolerationPlan(30), want: write,
		},
		"an absent resource is written": {plan: newResourcePlan(2), want: write},
		"an equal resource stays":       {job: withResource("2"), plan: newResourcePlan(2), want: keep},
		"another amount of a resource is denied": {
			job:  withResource("3"),
			plan: newResourcePlan(2), want: deny, wantText: "must equal the annotation",
		},
		"a volume with the name of a planned volume": {
			job:  withVolume("planned"),
			plan: newMountPlan(plan.Required), want: deny, wantText: "is reserved by Rollcall",
		},
		"the default backoffLimit is replaced": {
			job:  withBackoffLimit(6),
			plan: plan.Plan{JobFailureLimit: 5}, want: write,
		},
		"a backoffLimit of the user stays": {
			job:  withBackoffLimit(3),
			plan: plan.Plan{JobFailureLimit: 5}, want: keep,
		},
		"a backoffLimit of Rollcall is replaced": {
			job:  withInjection(t, plan.Plan{JobFailureLimit: 9}),
			plan: plan.Plan{JobFailureLimit: 5}, want: write,
		},
		"an init container with the name of the plan's": {
			job:  withInitContainer("planned"),
			plan: newInitPlan(), want: deny, wantText: "is reserved by Rollcall",
		},
	}
	different := map[plan.ConflictPolicy]outcome{
		plan.Required: deny, plan.Warn: warn, plan.Suggest: suggest, plan.KeepUser: keep,
	}
	for policy, want := range different {
		add := func(name string, c outcomeCase) { cases[fmt.Sprintf("%s, policy %d", name, policy)] = c }
		text := map[outcome]string{warn: "Rollcall would", suggest: "Rollcall would"}[want]
		envPlan := newEnvPlan("planned", policy, plan.Text)
		add("another variable", outcomeCase{job: userEnv, plan: envPlan, want: want, wantText: text})
		add("another label", outcomeCase{job: withLabel("l", "user"), plan: newLabelPlan(policy), want: want, wantText: text})
		mount := withMount("user", "/planned")
		add("another mount", outcomeCase{job: mount, plan: newMountPlan(policy), want: want, wantText: text})
		if want == deny {
			want = warn // the value can be right
		}
		unknownText := map[outcome]string{warn: "whose result is not known at admission"}[want]
		add("a source that only the cluster knows", outcomeCase{
			job: fromConfigMap, plan: envPlan, want: want, wantText: unknownText,
		})
		add("the name of the pod as the rank", outcomeCase{
			job: withFieldEnv("V", "metadata.name"), plan: newRankPlan(policy), want: want, wantText: unknownText,
		})
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newTestJob()
			if c.job != nil {
				c.job(w.Job)
			}
			user := w.DeepCopy()
			warnings, denials := applyTo(t, w, c.plan)
			got, text := describeOutcome(t, user, w, c.plan, warnings, denials)
			if got != c.want || !strings.Contains(text, c.wantText) {
				t.Errorf("the outcome is %s %q, want %s with %q", got, text, c.want, c.wantText)
			}
		})
	}
}

// describeOutcome returns what Apply did with a value, and its message.
func describeOutcome(
	t *testing.T, user, w gang.Workload, p plan.Plan, warnings gang.Warnings, denials gang.Denials,
) (outcome, string) {
	t.Helper()
	if len(denials) > 0 {
		return deny, denials.ErrorList().ToAggregate().Error()
	}
	record, err := ReadRecord(w)
	if err != nil {
		t.Fatal(err)
	}
	isWritten := false
	for _, key := range []string{
		"env/trainer/V", "label/l", "mount/trainer//planned", "command/trainer", "dnsSearch/planned",
		"toleration/lost:NoExecute", "resource/trainer/example.com/gpu", "field/backoffLimit",
	} {
		isWritten = isWritten || record.Values[key] != ""
	}
	hasWarning := slices.ContainsFunc(warnings, func(w gang.Warning) bool { return !w.Advice })
	switch {
	case isWritten && len(warnings) == 0:
		return write, ""
	case hasWarning:
		return warn, warnings[0].String()
	case len(warnings) > 0:
		return suggest, warnings[0].String()
	}
	return keep, ""
}

func newTolerationPlan(seconds int64) plan.Plan {
	return plan.Plan{Tolerations: []corev1.Toleration{{
		Key: "lost", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To(seconds),
	}}}
}

func withToleration(toleration corev1.Toleration) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.Template.Spec.Tolerations = append(j.Spec.Template.Spec.Tolerations, toleration)
	}
}

func withCommand(command string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Command = []string{command} }
}

func withSearch(domain string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.Template.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{domain}}
	}
}

func withResource(amount string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.Template.Spec.Containers[0].Resources.Limits =
			corev1.ResourceList{"example.com/gpu": resource.MustParse(amount)}
	}
}

func newResourcePlan(count int64) plan.Plan {
	return plan.Plan{Resources: []plan.Resource{{Name: "example.com/gpu", Count: count}}}
}

func withVolume(name string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		hostPath := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}
		j.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: name, VolumeSource: hostPath}}
	}
}

func withBackoffLimit(limit int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.BackoffLimit = &limit }
}

func withInitContainer(name string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: name}} }
}

func newInitPlan() plan.Plan {
	return plan.Plan{InitContainers: []plan.InitContainer{{Name: "planned", Command: []string{"setup"}}}}
}

// TestAdoptPort checks that a port of the user becomes that of the gang, unless an annotation contains a port or
// the value is not required.
func TestAdoptPort(t *testing.T) {
	for name, c := range map[string]struct {
		policy     plan.ConflictPolicy
		annotation string
		want       int32
	}{
		"required port":       {want: 29500},
		"suggested port":      {policy: plan.Suggest, want: 7000},
		"port of the gang":    {annotation: "7001", want: 7001},
		"port that is silent": {policy: plan.KeepUser, want: 7000},
	} {
		w := newTestJob(withEnv(corev1.EnvVar{Name: "V", Value: "29500"}))
		if c.annotation != "" {
			w.Meta().Annotations[gang.AnnotationPort] = c.annotation
		}
		g, _, _ := gang.Parse(w, gang.Frameworks{testFramework}, gang.Config{})
		adopted, changed := Adopt(w, g, newEnvPlan(fmt.Sprint(g.Port), c.policy, plan.Port))
		if adopted.Port != c.want || changed != (g.Port != c.want) {
			t.Errorf("%s: the gang has port %d and changed is %t, want port %d", name, adopted.Port, changed, c.want)
		}
	}
}

// TestConflictLimit checks that a workload has at most 20 denials of variables, and 20 warnings.
func TestConflictLimit(t *testing.T) {
	for policy, want := range map[plan.ConflictPolicy][2]int{
		plan.Required: {0, 20}, plan.Warn: {20, 0}, plan.Suggest: {20, 0}, plan.KeepUser: {0, 0},
	} {
		var p plan.Plan
		var env []corev1.EnvVar
		for i := range 30 {
			name := fmt.Sprintf("V%d", i)
			p.Env = append(p.Env, plan.LiteralEnv(name, "planned").WithPolicy(policy))
			env = append(env, corev1.EnvVar{Name: name, Value: "user"})
		}
		warnings, denials := applyTo(t, newTestJob(withEnv(env...)), p)
		if got := [2]int{len(warnings), len(denials)}; got != want {
			t.Errorf("policy %d: %d warnings and denials, want %d", policy, got, want)
		}
	}
}

// TestRemedyNextToStaleValues checks that the remedy of a variable names its entry in the object that the user sent,
// although the new plan does not contain an earlier entry of Rollcall.
func TestRemedyNextToStaleValues(t *testing.T) {
	stale := plan.Plan{Env: []plan.Env{plan.LiteralEnv("STALE", "earlier")}}
	w := newTestJob(withInjection(t, stale), withEnv(corev1.EnvVar{Name: "V", Value: "user"}))
	env := w.Template().Spec.Containers[0].Env
	index := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "V" })
	_, denials := applyTo(t, w, newEnvPlan("planned", plan.Required, plan.Text))
	want := fmt.Sprintf("/spec/template/spec/containers/0/env/%d", index)
	if len(denials) != 1 || len(denials[0].Fix) != 1 || denials[0].Fix[0].Path != want {
		t.Errorf("the denials are %v, want one whose fix removes %s", denials, want)
	}
}
