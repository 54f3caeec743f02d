package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Framework describes a training framework to [Parse]. It is plain data that an injector declares.
type Framework struct {
	// Name is the value of [LabelFramework].
	Name string
	// Roles are the roles of workloads in the order of their ranks. Rank 0 is the first pod of the
	// first role that a gang has. At least one role is required.
	Roles []Role
	// AnyRoles is true if a gang can have roles other than Roles, with any DNS label as the name. The
	// order of the ranks is then the order of [AnnotationRoles], and Roles are examples.
	AnyRoles bool
	// DefaultRole is the name of the role of a workload without [LabelRole], one of Roles.
	DefaultRole string
	// Port is the default port of the rendezvous.
	Port int32
	// PortName is the name of that port on the headless Service; an IANA_SVC_NAME.
	PortName string
	// ElasticRole is the name of the role whose number of pods can change while the gang runs; empty
	// if the framework is not elastic.
	ElasticRole string
	// FirstPodCompletionRole is the name of the role whose first pod determines completion in a gang
	// without a role that has DeterminesCompletion. Empty means that all ranks must succeed.
	FirstPodCompletionRole string
	// HasHostfile is true if the framework supports [AnnotationHostfile].
	HasHostfile bool
	// NeedsOnlyRank0 is true if the ranks find each other by the DNS name of rank 0. The injected
	// variables then contain no name of another rank.
	NeedsOnlyRank0 bool
	// HasLauncher is true if a launcher starts the processes of the other pods. Only these frameworks
	// use the annotations about MPI.
	HasLauncher bool
	// SSHPort is the port of sshd in the workers of a launcher if it is not the port of the gang; 0 if it is.
	SSHPort int32
	// HasTorchrunVars is true if pods without a launcher's workers get the variables of torchrun.
	HasTorchrunVars bool
	// PortVar is a variable of the user that selects the port of the rendezvous; empty if there is none.
	PortVar string

	// Launchers are the programs that start the processes of its training programs.
	Launchers []LauncherProgram
	// Signature is how its programs are recognized, in addition to Launchers.
	Signature Signature
	// ShortName is another name with which names of jobs start, such as tf; can be empty.
	ShortName string
	// HasEqualRoles is true if all roles do the same work, so that roles with equal templates can share one
	// workload.
	HasEqualRoles bool
	// StartsByAccelerator is true if its launcher starts a process for each accelerator of a host by default.
	StartsByAccelerator bool
	// RunsAnyProgram is true if its programs need not train, such as a benchmark of the network.
	RunsAnyProgram bool
}

// Role is a role of a workload in a gang.
type Role struct {
	// Name is the value of [LabelRole].
	Name string
	// MaxPods is the maximum number of pods; 0 means that only the constant [MaxPods] limits it.
	MaxPods int32
	// Requires are the names of roles that a gang with this role must have.
	Requires []string
	// Excludes are the names of roles that a gang with this role must not have.
	Excludes []string
	// LongRunning is true for a role that serves the others and never terminates on its own, such as
	// a parameter server.
	LongRunning bool
	// DeterminesCompletion is true if the gang succeeds when this role succeeds. Without such a role
	// all roles that are not LongRunning must succeed.
	DeterminesCompletion bool
}

// FindRole returns the role with the given name. With AnyRoles, every valid name is a role.
func (f Framework) FindRole(role string) (Role, bool) {
	if i := f.roleIndex(role); i >= 0 {
		return f.Roles[i], true
	}
	if f.AnyRoles && describeRoleNameProblem(role) == "" {
		return Role{Name: role}, true
	}
	return Role{}, false
}

// roleIndex returns the position of a role in Roles, or -1.
func (f Framework) roleIndex(role string) int {
	return slices.IndexFunc(f.Roles, func(r Role) bool { return r.Name == role })
}

// CompareRoles compares two roles by the order of their ranks, for a stable sort. With AnyRoles, all
// roles are equal, which keeps the order of the user. Roles that the framework does not have are last.
func (f Framework) CompareRoles(a, b string) int {
	if f.AnyRoles {
		return 0
	}
	position := func(role string) int {
		if i := f.roleIndex(role); i >= 0 {
			return i
		}
		return len(f.Roles)
	}
	return cmp.Compare(position(a), position(b))
}

// describeRoleNameProblem returns why a name cannot be the name of a role; empty if it can. The name
// is part of the names of pods, and a success policy.
func describeRoleNameProblem(name string) string {
	if name == SuccessPolicyAll || name == SuccessPolicyRank0 {
		return fmt.Sprintf("is reserved for the annotation %s; rename the role", AnnotationSuccessPolicy)
	}
	if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
		return fmt.Sprintf("must be a DNS label, because it is part of the names of the pods: %s; rename the role",
			strings.Join(msgs, "; "))
	}
	return ""
}

// LeaderRole returns the name of the role of one pod that determines completion next to workers, such as
// the master of pytorch; empty if the framework has no such role.
func (f Framework) LeaderRole() string {
	for _, r := range f.Roles {
		if r.MaxPods == 1 && r.DeterminesCompletion && len(r.Excludes) == 0 && r.Name != f.DefaultRole {
			return r.Name
		}
	}
	return ""
}

// roleOf returns the name of a workload's role by its metadata. The framework need not have it. A
// member of a multi-workload gang is named after its role, so the name is enough.
func (f Framework) roleOf(meta *metav1.ObjectMeta) string {
	role := meta.Labels[LabelRole]
	for _, r := range f.Roles {
		_, hasRoles := meta.Annotations[AnnotationRoles]
		if role == "" && hasRoles && strings.HasSuffix(meta.Name, "-"+r.Name) {
			role = r.Name
		}
	}
	return cmp.Or(role, f.DefaultRole)
}

// RoleNames returns the names of the roles, the default role first.
func (f Framework) RoleNames() []string {
	names := []string{f.DefaultRole}
	for _, r := range f.Roles {
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// CompatibleRoles returns roles that one gang can have together: the roles without Excludes.
func (f Framework) CompatibleRoles() []Role {
	return slices.DeleteFunc(slices.Clone(f.Roles), func(r Role) bool { return len(r.Excludes) > 0 })
}

// Frameworks are the frameworks that a build of Rollcall supports, in the order of user-visible
// lists.
type Frameworks []Framework

// Find returns the framework with the given name.
func (fs Frameworks) Find(name string) (Framework, bool) {
	for _, f := range fs {
		if f.Name == name {
			return f, true
		}
	}
	return Framework{}, false
}

// Names returns the names of the frameworks.
func (fs Frameworks) Names() []string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.Name
	}
	return names
}

// elasticNames returns the names of the elastic frameworks.
func (fs Frameworks) elasticNames() []string {
	var names []string
	for _, f := range fs {
		if f.ElasticRole != "" {
			names = append(names, f.Name)
		}
	}
	return names
}
