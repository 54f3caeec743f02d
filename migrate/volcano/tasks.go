package volcano

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// candidate is a task that was read, before it is known which part it plays.
type candidate struct {
	task
	role blueprint.Role
}

// readTasks makes roles of the tasks, in the order of their ranks.
func (r *reader) readTasks() {
	tasks := r.spec.Get("tasks")
	var found []candidate
	for i, n := range tasks.Items() {
		if c, ok := r.readTask(i, n); ok {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		tasks.Required("there is no gang without pods")
		return
	}
	r.parts(found)
	for _, part := range r.framework.roles {
		var players []candidate
		for _, c := range found {
			if c.role.Name == part.name {
				players = append(players, c)
			}
		}
		switch {
		case len(players) == 0:
		case len(players) > 1:
			players[1].node.Get("name").Invalid(fmt.Sprintf("plays the part %s of %s, as task %s does; a gang has each part once, so put them together",
				part.name, r.framework.name, players[0].name))
		case part.one && players[0].role.Pods > 1:
			players[0].node.Get("replicas").Invalid(fmt.Sprintf("%s has one %s; put the others into another task, or name another task %s",
				r.framework.name, part.name, part.name))
		default:
			r.join(part, players[0])
		}
	}
	for _, c := range found {
		if c.role.Name == "" {
			r.aside(c)
		}
	}
	r.blueprint.OneKind = len(r.framework.roles) > 1 && slices.Contains([]string{"pytorch", "xgboost", "lightgbm"}, r.framework.name) && !r.has("env")
}

// join makes a task a part of the gang.
func (r *reader) join(part role, c candidate) {
	launcher := slices.ContainsFunc(r.blueprint.Roles, func(b blueprint.Role) bool { return b.Name == roleLauncher })
	c.role.Set = part.serves || part.name == roleWorker && launcher // it waits for the launcher's orders
	c.node.Get("name").Carried("the part " + part.name)
	r.blueprint.Roles = append(r.blueprint.Roles, c.role)
	r.tasks = append(r.tasks, c.task)
}

// readTask reads one task. It is false for one without pods.
func (r *reader) readTask(i int, n ledger.Node) (candidate, bool) {
	c := candidate{task: task{name: n.Get("name").String(), node: n}}
	if c.name == "" {
		c.name = fmt.Sprintf("default%d", i) // as Volcano's webhook calls it
	}
	c.role = blueprint.Role{Node: n.Get("template"), Keys: map[string]string{},
		Former: blueprint.Former{Part: c.name, Prefix: r.blueprint.Name + "-" + c.name + "-", IndexField: "metadata.labels['" + indexMark + "']"}}
	replicas := n.Get("replicas")
	c.role.Pods = ptr.Deref(replicas.Int32(), 0)
	if c.role.Pods < 0 || c.role.Pods > mostPods {
		replicas.Invalid(fmt.Sprintf("must be from 0 to %d, the most pods of an Indexed Job", mostPods))
		return c, false
	}
	replicas.Carried("the workload's number of pods")
	c.policies = readPolicies(n.Get("policies"))
	if !n.Get("template").Exists() {
		n.Get("template").Required("the pods are made from it")
		return c, false
	}
	if !n.Get("template").Into(&c.role.Template) {
		return c, false
	}
	if c.role.Pods == 0 {
		n.Changed("", "left out: there are no pods of it", "")
		return c, false
	}
	r.total += c.role.Pods
	c.role.Template.Name = "" // Volcano overwrites it
	r.taskFields(&c)
	return c, true
}

// mostPods is the API server's bound (kubernetes, pkg/apis/batch/validation).
const mostPods = 100_000

// taskFields reads what a task says beside its pods.
func (r *reader) taskFields(c *candidate) {
	least := c.node.Get("minAvailable")
	if v := least.Int32(); v != nil && *v < c.role.Pods {
		least.Lost("all ranks of a gang are needed, and a PodGroup of plain Jobs has no number for each part", "")
	} else {
		least.Carried("the workload's number of pods")
	}
	if policy := c.node.Get("topologyPolicy"); policy.String() != "" && policy.String() != "none" {
		annotate(&c.role.Template, numaPolicy, policy.String())
		policy.Carried("annotation " + numaPolicy + " of the pods")
	} else {
		policy.Ignore()
	}
	c.node.Get("partitionPolicy").Lost("a gang is placed and restarted as a whole", "make a gang of each partition, if they do not work together")
}

// numaPolicy is the pod annotation that Volcano makes of topologyPolicy, and its
// scheduler reads.
const numaPolicy = "volcano.sh/numa-topology-policy"

func annotate(t *corev1.PodTemplateSpec, key, value string) {
	if t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	t.Annotations[key] = value
}

// parts says which part each task plays. A plugin knows them by their names alone, and
// leaves other tasks alone; without one they are told by their names, then by their
// commands, then by what is left.
func (r *reader) parts(found []candidate) {
	if names := r.partNames(); names != nil {
		for i := range found {
			found[i].role.Name = names[found[i].name]
		}
		return
	}
	for i := range found {
		if c := &found[i]; len(found) == 1 {
			c.role.Name = r.framework.byDefault
		} else {
			c.role.Name = r.framework.roleOf(c.name)
		}
	}
	if r.framework.launches && len(found) > 1 {
		byCommand(found)
	}
	for i := range found {
		if found[i].role.Name == "" {
			found[i].role.Name = roleWorker // told from others of the kind by join
		}
	}
}

// partNames are the parts by the names of their tasks, as the framework's plugin was
// told; nil without one.
func (r *reader) partNames() map[string]string {
	f, ok := r.plugins[r.framework.name]
	if !ok {
		return nil
	}
	names := map[string]string{}
	part := func(flag, role string) {
		name := f.text(flag, flag)
		names[name] = role
		f.node(flag).Carried(fmt.Sprintf("label %s: %s", gang.LabelRole, role))
	}
	switch r.framework.name {
	case "pytorch":
		part("master", roleMaster)
		part("worker", roleWorker)
		r.port(f.node("port"), f.port("port", r.framework.port))
		for _, flag := range []string{"wait-master-enabled", "wait-master-timeout", "wait-master-image"} {
			f.node(flag).Changed("", "left out: no init container waits for the master, since torch's own rendezvous does, and its name resolves before it is ready", "")
		}
	case "tensorflow":
		for _, name := range []string{"ps", "worker", "chief", "evaluator"} {
			part(name, name)
		}
		r.port(f.node("port"), f.port("port", r.framework.port))
	case "mpi":
		part("master", roleLauncher)
		part("worker", roleWorker)
		if f.given("port") {
			f.port("port", sshPort)
			f.node("port").Changed("", fmt.Sprintf("sshd of the gang listens on port %d, and ssh knows that", sshdPort), "")
		}
	}
	return names
}

// sshPort is the default of the plugins mpi and ssh, and sshdPort where Rollcall's sshd
// listens (injectors/ssh, Port).
const (
	sshPort  = 22
	sshdPort = 2222
)

var launchCommand = regexp.MustCompile(`\b(mpirun|mpiexec|horovodrun)\b|(^|[\s;&|/])deepspeed\s`)

// byCommand finds the launcher by what it calls, where exactly one task does, and makes
// workers of the others.
func byCommand(found []candidate) {
	at := -1
	for i := range found {
		if launchCommand.MatchString(strings.Join(textsOf(&found[i].role.Template.Spec), "\n")) {
			if at >= 0 {
				return
			}
			at = i
		}
	}
	if at < 0 {
		return
	}
	for i := range found {
		if found[i].role.Name = roleWorker; i == at {
			found[i].role.Name = roleLauncher
		}
	}
}

// aside makes a plain Job of a task that is no part of the framework, as its plugin has
// no variables for it either.
func (r *reader) aside(c candidate) {
	name := r.blueprint.Name + "-" + c.name
	c.node.Only("name", "replicas", "minAvailable", "template", "policies", "topologyPolicy", "maxRetry", "dependsOn", "partitionPolicy")
	for _, field := range []string{"policies", "maxRetry", "dependsOn"} {
		c.node.Get(field).Lost("a Job beside the gang has rules of its own for its pods that fail, and waits for nobody", "see its backoffLimit and podFailurePolicy")
	}
	c.node.Changed("job.batch/"+name,
		fmt.Sprintf("the task is no part of %s, so it is a Job of its own beside the gang: it does not end or restart with it, and nothing finds its pods by name", r.framework.name),
		"see whether the gang needs it")
	spec := c.role.Template.Spec
	if text, err := json.Marshal([]any{spec.Affinity, spec.TopologySpreadConstraints, spec.Volumes, spec.Containers, spec.InitContainers}); err == nil {
		for _, label := range slices.Sorted(maps.Keys(marks())) {
			if strings.Contains(string(text), label) {
				c.node.Get("template").Note(fmt.Sprintf("it names the label %s, which pods do not bear any more", label),
					fmt.Sprintf("the gang's pods are told by %s: %s, and those of this Job by %s: %s", gang.LabelGang, r.blueprint.Name, batchv1.JobNameLabel, name))
			}
		}
	}
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.blueprint.Namespace},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(c.role.Pods), Completions: ptr.To(c.role.Pods), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Template: c.role.Template,
		},
	}
	if job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	r.blueprint.Extras = append(r.blueprint.Extras, func(func(string) blueprint.Place) runtime.Object { return job })
}
