package gang

import "slices"

// Framework is what Parse has to know about a training framework: plain data
// that its injector declares.
type Framework struct {
	// Name is the value of [LabelFramework].
	Name string
	// Roles are the roles that a workload may play, in the order of their ranks: the
	// first pod of the first role that a gang has is its rank 0. At least one is
	// required.
	Roles []Role
	// Role is the name of the role of a workload that names none, one of Roles.
	Role string
	// Port is the rendezvous port when the user names none.
	Port int32
	// PortName names that port on the headless Service; an IANA_SVC_NAME.
	PortName string
	// Elastic names the role whose number of pods may change while the gang runs; the
	// zero value means that the framework cannot do that.
	Elastic string
	// First names the role whose first pod's end is the end of a gang that has no role
	// that decides; the zero value means that all have to end.
	First string
	// Launches is true when a launcher starts the processes of the other pods. The
	// annotations about MPI mean nothing to other frameworks.
	Launches bool
}

// Role is a part that a workload can play in a gang.
type Role struct {
	// Name is the value of [LabelRole].
	Name string
	// Max is the largest number of pods in the role; 0 when there is no limit.
	Max int32
	// Requires names the roles without which this one makes no sense.
	Requires []string
	// Excludes names the roles beside which this one makes no sense.
	Excludes []string
	// Serves is true for a role that waits for the others to end, and never ends itself.
	Serves bool
	// Decides is true when the end of this role is the end of the gang. When no role of
	// a gang decides, all have to end that do not serve.
	Decides bool
}

// Find returns the role with the given name.
func (f Framework) Find(role string) (Role, bool) {
	for _, r := range f.Roles {
		if r.Name == role {
			return r, true
		}
	}
	return Role{}, false
}

// RoleNames returns the roles' names, the default first.
func (f Framework) RoleNames() []string {
	names := []string{f.Role}
	for _, r := range f.Roles {
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Together are the roles that a gang can have all at once: of roles that exclude each
// other, the later.
func (f Framework) Together() []Role {
	return slices.DeleteFunc(slices.Clone(f.Roles), func(r Role) bool { return len(r.Excludes) > 0 })
}

// Frameworks is the set of frameworks that a build of Rollcall supports, in the
// order in which they are listed to users.
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

// Names returns the frameworks' names in their order.
func (fs Frameworks) Names() []string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.Name
	}
	return names
}

// elastic returns the names of the frameworks that can be elastic.
func (fs Frameworks) elastic() []string {
	var names []string
	for _, f := range fs {
		if f.Elastic != "" {
			names = append(names, f.Name)
		}
	}
	return names
}
