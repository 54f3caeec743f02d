package cluster

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
)

// Nodes says which kind of nodes a cluster has.
type Nodes string

const (
	// None is a control plane without nodes. It is what the zero value of Options means.
	None Nodes = "none"
	// Kwok has simulated nodes, whose pods run without processes.
	Kwok Nodes = "kwok"
	// Real has this machine as its one node. Needs root.
	Real Nodes = "real"
)

// Release says which Kubernetes a cluster runs.
type Release string

const (
	// Newest is the release that Rollcall is built with.
	Newest Release = "newest"
	// Floor is the oldest release that Rollcall supports.
	Floor Release = "floor"
)

// ReleaseEnv names the environment variable that chooses the Release where Options leave it open. With it, tests that
// were written for the newest release run on the oldest.
const ReleaseEnv = "ROLLCALL_TEST_KUBERNETES"

// DefaultRelease is what a zero Options.Release means.
func DefaultRelease() Release { return cmp.Or(Release(os.Getenv(ReleaseEnv)), Newest) }

// defaultKwokNodes is small enough to be free and large enough for a gang to be spread.
const defaultKwokNodes = 10

// Options says what cluster to start. The zero value is a control plane without nodes.
type Options struct {
	// Nodes is the kind of nodes; zero means None.
	Nodes Nodes
	// KwokNodes is the number of simulated nodes; zero means 10. Only with Kwok.
	KwokNodes int
	// Release is which Kubernetes runs; zero means what ReleaseEnv says, and Newest where it says nothing.
	Release Release
	// Name is the name of the cluster and of its folder below the cache directory: lower case letters, digits and
	// hyphens, at most 40. Zero means a new one. A name that a running cluster has is refused.
	Name string
	// Port is the API server's; zero means a free one. A port that is taken is refused.
	Port int
	// FeatureGates are given to every component of Kubernetes.
	FeatureGates map[string]bool
	// APIServerFlags, ControllerManagerFlags and SchedulerFlags come after our own flags, such as "--v=4", and so
	// prevail over them.
	APIServerFlags, ControllerManagerFlags, SchedulerFlags []string
	// Images are loaded into a Real cluster before it is handed out.
	Images []ImageSource
	// Detached lets the cluster outlive this process: it runs until it is stopped by Down or "cluster down".
	Detached bool
	// Progress receives a line for each step, with the time that it took; zero means os.Stderr.
	Progress io.Writer
}

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// complete returns the options with all defaults filled in, or an error that names the field at fault.
func (o Options) complete() (Options, error) {
	switch o.Nodes {
	case "":
		o.Nodes = None
	case None, Kwok, Real:
	default:
		return o, fmt.Errorf("option Nodes: %q is not one of %q, %q, %q", o.Nodes, None, Kwok, Real)
	}
	switch o.Release = cmp.Or(o.Release, DefaultRelease()); o.Release {
	case Newest, Floor:
	default:
		return o, fmt.Errorf("option Release, or %s: %q is not one of %q, %q", ReleaseEnv, o.Release, Newest, Floor)
	}
	if o.KwokNodes < 0 || (o.KwokNodes > 0 && o.Nodes != Kwok) {
		return o, fmt.Errorf("option KwokNodes: %d nodes cannot be had with nodes of kind %q", o.KwokNodes, o.Nodes)
	}
	if o.Nodes == Kwok && o.KwokNodes == 0 {
		o.KwokNodes = defaultKwokNodes
	}
	if o.Port < 0 || o.Port > 65535 {
		return o, fmt.Errorf("option Port: %d is not between 0 and 65535", o.Port)
	}
	if o.Name == "" {
		o.Name = newName(o.Nodes)
	}
	if !validName.MatchString(o.Name) {
		return o, fmt.Errorf("option Name: %q is not 1 to 40 lower case letters, digits and hyphens", o.Name)
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	return o, nil
}
