package hostfile

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/agent"
	"rollcall.training/plan"
)

// PrintHostsFunction is a shell function that prints the hosts of its argument in the order of their
// ranks, one in each line. The argument has the format of [FormatMembers]. ROLLCALL_DOMAIN is the domain
// of the hosts.
//
//nolint:dupword // the loops of a shell end with done
const PrintHostsFunction = `print_hosts() {
  printf '%s\n' "$1" | while read -r name index last; do
    while [ "$index" -le "$last" ]; do
      echo "$name-$index.$ROLLCALL_DOMAIN"
      index=$((index + 1))
    done
  done
}
`

// FormatMembers returns one line per member: "<name> <first index> <last index>". A list of all hosts
// would exceed the size limits of a pod template.
func FormatMembers(members []gang.Member) string {
	lines := make([]string, len(members))
	for i, m := range members {
		lines[i] = fmt.Sprintf("%s 0 %d", m.WorkloadName, m.Size-1)
	}
	return strings.Join(lines, "\n")
}

// Names of the volume with the file of [gang.Gang.Hostfile] and of its content.
const (
	volumeName     = "rollcall-hostfile"
	setupMountPath = "/etc/rollcall"
	hostsFile      = "hosts"
)

// NewVolume returns the volume with the file of [gang.Gang.Hostfile]. The mount is read-only.
func NewVolume(g gang.Gang) plan.Volume {
	return plan.Volume{
		Volume: corev1.Volume{Name: volumeName, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{},
		}},
		Mounts: []corev1.VolumeMount{{MountPath: g.Hostfile, SubPath: hostsFile, ReadOnly: true}},
	}
}

// NewSetupContainer returns the init container that writes the addresses of all ranks into the volume.
// It requires a shell in the image of the training container.
func NewSetupContainer(g gang.Gang) plan.InitContainer {
	return plan.InitContainer{
		Name: "rollcall-hostfile-setup",
		Command: []string{"/bin/sh", "-c",
			"umask 022\n" + PrintHostsFunction + `print_hosts "$ROLLCALL_HOSTS" >` + setupMountPath + "/" + hostsFile},
		Env: []plan.Env{
			plan.LiteralEnv(agent.EnvHosts, FormatMembers(g.Members)),
			plan.LiteralEnv(agent.EnvDomain, g.ServiceFQDN()),
		},
		Mounts: []corev1.VolumeMount{{Name: volumeName, MountPath: setupMountPath}},
	}
}
