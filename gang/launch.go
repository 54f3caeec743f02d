package gang

import "cmp"

// LaunchMethod is the method by which a launcher starts processes in the other pods of its gang.
type LaunchMethod string

// The methods.
const (
	// LaunchSSH uses ssh and sshd of the image.
	LaunchSSH LaunchMethod = "ssh"
	// LaunchAgent uses a program of Rollcall in the pods.
	LaunchAgent LaunchMethod = "agent"
)

// DefaultAgentImage is the image of the agent without [Config.AgentImage]. The domain invalid never
// resolves (RFC 6761), so that nobody else can provide the image.
const DefaultAgentImage = "registry.invalid/rollcall/manager"

// UsesAgent reports whether the agent starts the processes of the gang.
func (l Launcher) UsesAgent() bool { return l.Launch == LaunchAgent }

// AgentImage is the image with the agent, and how its program comes into the pods.
type AgentImage struct {
	// Reference is the name of the image.
	Reference string
	// IsMounted is true if the pods mount the image. Otherwise an init container copies the program.
	IsMounted bool
}

// agentImage returns the image that contains the agent. The first release with restart rules of containers is also
// the first with image volumes (KEP-4639). An older API server would create empty volumes instead.
func (c Config) agentImage() AgentImage {
	return AgentImage{
		Reference: cmp.Or(c.AgentImage, DefaultAgentImage),
		IsMounted: c.MountsAgent && !c.DisableContainerRestartRules,
	}
}
