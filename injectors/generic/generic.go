package generic

import (
	"fmt"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/injectors/rendezvous"
	"rollcall.training/plan"
)

// defaultPort is the default port of torch.distributed, which is free in most images.
const defaultPort = 29500

// Injector is the injector for programs of no supported framework. The zero value is ready to use.
type Injector struct{}

// Framework returns the declaration of the framework.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name:        "generic",
		Roles:       []gang.Role{{Name: "leader"}, {Name: "worker"}},
		AnyRoles:    true,
		DefaultRole: "worker",
		Port:        defaultPort, PortName: "rendezvous",
		HasHostfile: true,
	}
}

// Plan returns the roles of the gang, the position of the pod, and the format of all addresses. With
// [gang.Gang.Hostfile] it also returns the container that writes the file.
func (Injector) Plan(g gang.Gang) plan.Plan {
	p := plan.Plan{Env: append(rendezvous.MasterEnv(g, "ROLLCALL_"),
		plan.LiteralEnv("ROLLCALL_ROLES", g.FormatRoles()),
		plan.FieldEnv("ROLLCALL_INDEX", plan.PodLabelFieldPath(g.IndexLabel)),
		plan.LiteralEnv("ROLLCALL_ADDR_FORMAT", formatAddresses(g)),
	)}
	if g.Hostfile != "" {
		p.Volumes = []plan.Volume{hostfile.NewVolume(g)}
		p.InitContainers = []plan.InitContainer{hostfile.NewSetupContainer(g)}
	}
	return p
}

// formatAddresses returns the address of every pod with the placeholders {role} and {index}. The only
// role of a gang of one workload is not part of the address.
func formatAddresses(g gang.Gang) string {
	workload := g.WorkloadName
	if len(g.Members) > 1 {
		workload = gang.MemberName(g.Name, "{role}")
	}
	return fmt.Sprintf("%s-{index}.%s", workload, g.ServiceFQDN())
}
