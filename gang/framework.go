package gang

// Framework is what Parse has to know about a training framework: plain data
// that its injector declares.
type Framework struct {
	// Name is the value of [LabelFramework].
	Name string
	// Roles lists the roles that a workload may play, the default first. At least
	// one is required.
	Roles []string
	// Port is the rendezvous port when the user names none.
	Port int32
	// PortName names that port on the headless Service; an IANA_SVC_NAME.
	PortName string
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
