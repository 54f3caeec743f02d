package volcano

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/detection"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// candidate is a task whose role is not known yet.
type candidate struct {
	task
	role ir.Role
}

// readTask reads one task. It returns false for a task without pods or with mistakes.
func (r *reader) readTask(index int) (candidate, bool) {
	f := r.spec.Get("tasks").Item(index)
	c := candidate{task: task{name: f.Get("name").String(), field: f}}
	if c.name == "" {
		c.name = fmt.Sprintf("default%d", index) // the name that Volcano's webhook sets
	}
	c.role = ir.Role{
		Source: f.Get("template"), RollcallAnnotations: map[string]string{},
		SourceNames: ir.SourceNames{
			Role: c.name, Prefix: r.gang.Name + "-" + c.name + "-",
		},
	}
	replicas := f.Get("replicas")
	c.role.Pods = ptr.Deref(replicas.Int32(), 0)
	if c.role.Pods < 0 || c.role.Pods > gang.MaxPods {
		replicas.MarkInvalid(fmt.Sprintf("must be a number of pods from 0 to %d", gang.MaxPods))
		return c, false
	}
	replicas.MarkPreserved("the number of pods of the workload")
	c.policies = readPolicies(f.Get("policies"))
	if !c.role.Source.Exists() {
		c.role.Source.MarkRequired("the pods are created from it")
		return c, false
	}
	if !c.role.Source.Decode(&c.role.Template) {
		return c, false
	}
	for _, container := range ir.ListContainers(&c.role.Template.Spec) {
		r.texts = append(r.texts, detection.Texts(container)...)
	}
	r.pods = append(r.pods, c.role.Template.Spec.DeepCopy())
	if c.role.Pods == 0 {
		f.MarkLeftOut("it has no pods")
		return c, false
	}
	r.podCount += c.role.Pods
	c.role.Template.Name = "" // Volcano overwrites it
	convertTaskFields(&c)
	return c, true
}

// convertTaskFields converts the fields of a task other than its pods.
func convertTaskFields(c *candidate) {
	minAvailable := c.field.Get("minAvailable")
	if v := minAvailable.Int32(); v != nil && *v < c.role.Pods {
		minAvailable.MarkDropped("a gang needs all of its ranks, and a PodGroup has no minimum for each role", "")
	} else {
		minAvailable.MarkPreserved("the number of pods of the workload")
	}
	numa, retries := c.field.Get("topologyPolicy"), c.field.Get("maxRetry")
	if numa.String() == "none" { // Volcano's default
		numa.MarkHandled()
	}
	if ptr.Deref(retries.Int32(), 0) == 3 { // Volcano's default
		retries.MarkHandled()
	}
	for _, f := range []source.Field{numa, retries, c.field.Get("partitionPolicy")} {
		f.MarkDropped("a gang restarts as a unit, and has no such setting of a task", "")
	}
}

// assignTasks makes roles of the tasks, in the order of their ranks. A task without a role
// is dropped.
func (r *reader) assignTasks(candidates []candidate) {
	if len(candidates) == 0 {
		r.spec.Get("tasks").MarkRequired("a gang needs at least one pod")
		return
	}
	r.assignRoles(candidates)
	for _, name := range r.listRoles(candidates) {
		role, ok := r.framework.FindRole(name)
		players := slices.DeleteFunc(slices.Clone(candidates), func(c candidate) bool { return c.role.Name != name })
		switch {
		case !ok:
			players[0].field.Get("name").MarkInvalid("cannot be the name of a role; rename the task")
		case len(players) > 1:
			players[1].field.Get("name").MarkInvalid(fmt.Sprintf(
				"has the role %s of %s, like task %s; a gang has each role once, so merge the tasks",
				role.Name, r.framework.Name, players[0].name))
		case role.MaxPods == 1 && players[0].role.Pods > 1:
			players[0].field.Get("replicas").MarkInvalid(fmt.Sprintf(
				"must be 1, because %s has one %s; move the other pods to another task, or name another task %s",
				r.framework.Name, role.Name, role.Name))
		default:
			c := players[0]
			c.role.StatefulSet = role.LongRunning || // the workers of a launcher run until they are stopped
				r.framework.HasLauncher && role.Name == roleWorker && r.gang.FindRole(gang.RoleLauncher) != nil
			c.field.Get("name").MarkPreserved("the role " + role.Name)
			r.gang.Roles, r.tasks = append(r.gang.Roles, c.role), append(r.tasks, c.task)
		}
	}
	for _, c := range candidates {
		if c.role.Name == "" {
			c.field.ReportUnreadExcept("name", "replicas", "minAvailable", "template", "policies", "topologyPolicy",
				"maxRetry", "dependsOn", "partitionPolicy")
			c.field.MarkDropped(fmt.Sprintf("the task has no role in %s, and a gang contains only its ranks", r.framework.Name),
				"create a Job from its template if the gang needs it")
		}
	}
	r.gang.Homogeneous = r.framework.HasEqualRoles && !r.hasPlugin("env")
}

// listRoles returns the roles of the tasks in the order of their ranks.
func (r *reader) listRoles(candidates []candidate) []string {
	var out []string
	for _, c := range candidates {
		if c.role.Name != "" && !slices.Contains(out, c.role.Name) {
			out = append(out, c.role.Name)
		}
	}
	slices.SortStableFunc(out, r.framework.CompareRoles)
	return out
}

// assignRoles sets the role of each task. With a plugin, the names of the tasks decide, and other
// tasks have no role. Without a plugin, the roles are inferred from the names, then from the commands.
// The remaining tasks are workers.
func (r *reader) assignRoles(candidates []candidate) {
	if roles := r.rolesFromPlugin(); roles != nil {
		for i := range candidates {
			candidates[i].role.Name = roles[candidates[i].name]
		}
		return
	}
	if len(candidates) == 1 {
		candidates[0].role.Name = r.framework.DefaultRole
		return
	}
	for i := range candidates {
		if r.framework.AnyRoles {
			candidates[i].role.Name = candidates[i].name
		} else {
			name := candidates[i].name
			lastWord := name[strings.LastIndexByte(name, '-')+1:]
			suggested := cmp.Or(ir.SuggestRole(r.Context.Frameworks, name), ir.SuggestRole(r.Context.Frameworks, lastWord))
			candidates[i].role.Name = ir.FrameworkRole(r.framework, suggested)
		}
	}
	if r.framework.HasLauncher {
		r.assignLauncherByCommand(candidates)
	}
	for i := range candidates {
		if candidates[i].role.Name == "" {
			candidates[i].role.Name = roleWorker
		}
	}
}

// rolesFromPlugin returns the roles by the names of tasks, according to the flags of the framework's
// plugin. It returns nil without a plugin.
func (r *reader) rolesFromPlugin() map[string]string {
	flags, ok := r.plugins[r.framework.Name]
	if !ok {
		return nil
	}
	roles := map[string]string{}
	for _, role := range r.framework.Roles {
		flag := role.Name
		if flag == gang.RoleLauncher {
			flag = roleMaster
		}
		roles[cmp.Or(flags.values[flag], flag)] = role.Name
	}
	if port := flags.values["port"]; port != "" && !r.framework.HasLauncher { // sshd has the port of the gang
		r.gang.SetAnnotation(gang.AnnotationPort, port)
	}
	return roles
}

// assignLauncherByCommand finds the launcher by its command. If the commands of exactly one task start
// a launcher, the other tasks are workers.
func (r *reader) assignLauncherByCommand(candidates []candidate) {
	var launchers []int
	for i := range candidates {
		if f, _ := detection.FindLauncher(r.Context.Frameworks, &candidates[i].role.Template.Spec); f.HasLauncher {
			launchers = append(launchers, i)
		}
	}
	if len(launchers) != 1 {
		return
	}
	for i := range candidates {
		candidates[i].role.Name = roleWorker
	}
	candidates[launchers[0]].role.Name = gang.RoleLauncher
}

// convertTemplates applies the changes that Volcano makes to the pods, and removes what the pods of a
// gang cannot have.
func (r *reader) convertTemplates() {
	for i := range r.gang.Roles {
		role := &r.gang.Roles[i]
		spec := &role.Template.Spec
		r.removePodNames(role)
		ir.ReportJoinedPods(r.framework, spec, role.Source, r.gang.PodCount())
		injection := r.gang.Inject(r.Context, role)
		r.gang.RollcallAnnotations = ir.MergeMaps(injection.Settings, r.gang.RollcallAnnotations)
		role.RemoveInjectedVars(injection, injection.TrainingContainers...)
		if len(spec.Containers) > 1 { // the plugins set the variables in all containers
			role.Source.At("spec", "containers").AddNote(
				fmt.Sprintf("container %s is the training container, and only it gets the variables of the framework",
					spec.Containers[r.gang.TrainingContainer(r.Context, role)].Name),
				"select others with "+gang.AnnotationContainers)
		}
		if role.StatefulSet && len(spec.Containers) > 0 && r.framework.HasLauncher &&
			r.gang.FindRole(gang.RoleLauncher) != nil {
			ir.ConvertWorkerCommand(spec, r.gang.TrainingContainer(r.Context, role), role.Source, gang.LaunchSSH)
		}
		if spec.HostNetwork && spec.DNSPolicy == "" { // the same change as in Volcano's webhook
			spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		}
		dependencies := r.tasks[i].field.Get("dependsOn")
		if r.framework.HasLauncher && role.Name == gang.RoleLauncher {
			dependencies.MarkChanged("",
				"all pods start together; the command of the launcher starts when all workers answer", "")
		} else {
			dependencies.MarkDropped("all pods of a gang start together", "wait in the program for what it needs")
		}
	}
}

// removePodNames removes names that a template gives to all of its pods.
func (r *reader) removePodNames(role *ir.Role) {
	spec := &role.Template.Spec
	for name, value := range map[string]string{"hostname": spec.Hostname, "subdomain": spec.Subdomain} {
		if value != r.gang.Name {
			role.Source.At("spec", name).MarkDropped("every rank has its own hostname in the Service of the gang",
				"replace "+value+" in hostnames of the manifest")
		}
	}
	spec.Hostname, spec.Subdomain = "", ""
}

// forEachTemplate calls visit for the templates of all roles.
func (r *reader) forEachTemplate(visit func(t *corev1.PodTemplateSpec)) {
	for i := range r.gang.Roles {
		visit(&r.gang.Roles[i].Template)
	}
}
