package ssh

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Port is where the workers' sshd listens: not 22, which takes a right that a
// container without privileges lacks. It is the port of mpi-operator's images.
const Port = 2222

// PortName names it on the headless Service.
const PortName = "ssh"

// Names of the containers that the plan adds.
const (
	// Prepare makes what ssh needs, and in the launcher waits for the hosts.
	Prepare = "rollcall-ssh"
	// Watch counts the hosts that the launcher reached; see [Reached].
	Watch = "rollcall-watch"
)

// Keys of the Secret with a gang's key pair: those of the type kubernetes.io/ssh-auth,
// and of mpi-operator.
const (
	PrivateKey = corev1.SSHAuthPrivateKey
	PublicKey  = "ssh-publickey"
)

// Volumes and the paths at which containers see them.
const (
	volume    = "rollcall-ssh"
	etcVolume = "rollcall-etc"
	keyVolume = "rollcall-ssh-key"
	path      = "/etc/rollcall"
	etcPath   = "/etc/rollcall-etc"
	keyPath   = "/etc/rollcall-key"
)

// waitAtMost bounds the launcher's wait for its hosts. Nodes that are made on demand
// come within 15 minutes on the large clouds, and images of 20 GB within as many.
const waitAtMost = 30 * time.Minute

var (
	//go:embed prepare.sh
	prepareScript string
	//go:embed wait.sh
	waitScript string
	//go:embed watch.sh
	watchScript string
)

// Options are what differs between frameworks.
type Options struct {
	// Hydra is true where /etc/mpi/hostfile has the form of Hydra, host:slots, and false
	// for that of Open MPI, "host slots=n".
	Hydra bool
	// Port is where sshd listens; the zero value means the gang's port.
	Port int32
	// Mounts are further paths at which containers see the folder of the hostfile.
	Mounts []string
}

// Plan is what a member of g needs so that the launcher reaches the hosts.
func Plan(g gang.Gang, o Options) plan.Plan {
	alone := len(g.Members) == 1
	p := plan.Plan{
		Volumes: []plan.Volume{{
			Volume: corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}, // a key never comes to a disk
			Mounts: mounts(o),
			Policy: plan.Default,
		}},
		Inits: []plan.Init{prepare(g, o, alone)},
	}
	if alone {
		return p
	}
	p.Children.KeyPair = keyPair(g)
	// What the container must not change lies apart: whoever can write passwd can become
	// another user.
	p.Volumes = append(p.Volumes, plan.Volume{
		Volume: corev1.Volume{Name: etcVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		Policy: plan.Default,
		Mounts: []corev1.VolumeMount{
			{MountPath: "/etc/ssh/ssh_config", SubPath: "ssh_config", ReadOnly: true},
			{MountPath: "/etc/ssh/sshd_config", SubPath: "sshd_config", ReadOnly: true},
			{MountPath: "/etc/passwd", SubPath: "passwd", ReadOnly: true},
		},
	})
	p.Volumes = append(p.Volumes, plan.Volume{Volume: corev1.Volume{Name: keyVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{
			SecretName: keyPair(g),
			// Only the init container mounts it, which may run as any user.
			DefaultMode: ptr.To[int32](0o444),
		}}}})
	// Hydra's proxies call the launcher back by its bare hostname.
	p.Searches = []string{g.Subdomain()}
	if g.Role == gang.RoleLauncher {
		p.Inits = append(p.Inits, plan.Init{Name: Watch, Sidecar: true, Command: []string{"/bin/sh", "-c", bare(watchScript)},
			Mounts: []corev1.VolumeMount{{Name: volume, MountPath: path}}})
	} else {
		p.Command = []string{"/bin/sh", path + "/ssh/sshd"}
	}
	return p
}

// keyPair is the name of the Secret, which nobody else would choose.
func keyPair(g gang.Gang) string { return g.Name + "-rollcall-ssh" }

func mounts(o Options) []corev1.VolumeMount {
	out := []corev1.VolumeMount{{MountPath: path}}
	for _, folder := range append([]string{"/etc/mpi"}, o.Mounts...) {
		out = append(out, corev1.VolumeMount{MountPath: folder, SubPath: "mpi"})
	}
	return out
}

// prepare is the init container that makes the volume's content.
func prepare(g gang.Gang, o Options, alone bool) plan.Init {
	form := "slots"
	if o.Hydra {
		form = "hydra"
	}
	hosts := lasting(g)
	script := bare(prepareScript)
	env := []plan.Env{
		plan.Value("ROLLCALL_HOSTS", lines(hosts)),
		plan.Value("ROLLCALL_DOMAIN", g.Subdomain()),
		plan.Value("ROLLCALL_SLOTS", strconv.FormatInt(g.Launch.Slots, 10)),
		plan.Value("ROLLCALL_SELF", strconv.FormatBool(g.Launch.Self)),
		plan.Value("ROLLCALL_HOSTFILE", form),
		plan.Value("ROLLCALL_PORT", strconv.Itoa(int(cmp.Or(o.Port, g.Port)))),
		plan.Value("ROLLCALL_NAMES", patterns(g)),
	}
	if g.Elastic != nil {
		env = append(env, plan.Value("ROLLCALL_CANDIDATES", lines(sized(g, hosts, g.Elastic.Max))))
	}
	if g.Role == gang.RoleLauncher && !alone {
		script += bare(waitScript)
		env = append(env,
			plan.Value("ROLLCALL_WAIT_FOR", strconv.Itoa(int(Others(g)))),
			plan.Value("ROLLCALL_WAIT", strconv.Itoa(int(waitAtMost.Seconds()))))
	}
	init := plan.Init{Name: Prepare, Command: []string{"/bin/sh", "-c", script}, Env: env,
		Mounts: []corev1.VolumeMount{{Name: volume, MountPath: path}}}
	if !alone {
		init.Mounts = append(init.Mounts, corev1.VolumeMount{Name: etcVolume, MountPath: etcPath},
			corev1.VolumeMount{Name: keyVolume, MountPath: keyPath, ReadOnly: true})
	}
	return init
}

// bare is a script without its comments, which are for those who read it here: every
// pod of the gang carries it.
func bare(script string) string {
	var out strings.Builder
	for line := range strings.Lines(script) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "# ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// Hosts are the members on whose pods the launcher starts processes, in the order in
// which the hostfile has them.
func Hosts(g gang.Gang) []gang.Member {
	return slices.DeleteFunc(slices.Clone(g.Members), func(m gang.Member) bool {
		return m.Role == gang.RoleLauncher && !g.Launch.Self
	})
}

// lasting are the hosts that an elastic gang always has, and all hosts of another. The
// present number of an elastic gang's has no place in a template, which would roll with
// each change of it.
func lasting(g gang.Gang) []gang.Member {
	if g.Elastic == nil {
		return Hosts(g)
	}
	return sized(g, Hosts(g), g.Elastic.Min)
}

// sized gives the elastic one of some members a size.
func sized(g gang.Gang, members []gang.Member, size int32) []gang.Member {
	out := slices.Clone(members)
	for i := range out {
		if out[i].Role == g.Framework.Elastic {
			out[i].Size = size
		}
	}
	return out
}

// Others is the number of hosts, the launcher's own pod aside, without which the
// launcher does not begin. Its own pod answers nobody.
func Others(g gang.Gang) int32 {
	var n int32
	for _, m := range lasting(g) {
		if m.Role != gang.RoleLauncher {
			n += m.Size
		}
	}
	return n
}

// lines is the form in which the script reads members: "name from to".
func lines(members []gang.Member) string {
	var out strings.Builder
	for i, m := range members {
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s 0 %d", m.Workload, m.Size-1)
	}
	return out.String()
}

// patterns match the bare hostnames of the gang, in the configuration of ssh.
func patterns(g gang.Gang) string {
	names := make([]string, len(g.Members))
	for i, m := range g.Members {
		names[i] = m.Workload + "-*"
	}
	return strings.Join(names, " ")
}

// Reached reads what [Watch] left as its termination message: how many hosts other
// than its own the launcher connected to. It is false for a message that is not one.
func Reached(message string) (int, bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(message), "reached=")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
