package gang

// LaunchMethod is the method by which a launcher starts processes in the other pods of its gang.
type LaunchMethod string

// The methods.
const (
	// LaunchSSH uses ssh and sshd of the image.
	LaunchSSH LaunchMethod = "ssh"
	// LaunchAgent uses a program that an init container copies into the pods.
	LaunchAgent LaunchMethod = "agent"
)

// DefaultAgentImage is the image of the agent without [Config.AgentImage]. The domain invalid never
// resolves (RFC 6761), so that nobody else can provide the image.
const DefaultAgentImage = "registry.invalid/rollcall/manager"

// UsesAgent reports whether the agent starts the processes of the gang.
func (l Launcher) UsesAgent() bool { return l.Launch == LaunchAgent }
