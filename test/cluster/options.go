package cluster

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// NodeKind is a kind of nodes of a cluster.
type NodeKind string

const (
	// NoNodes means a control plane without nodes. It is the default.
	NoNodes NodeKind = "none"
	// Kwok means simulated nodes, whose pods run without processes.
	Kwok NodeKind = "kwok"
	// Real means that pods run: this machine is the first node, and further nodes are network namespaces of
	// it. It needs root.
	Real NodeKind = "real"
)

// Release is a Kubernetes release that a cluster can run: a constant, or a version such as v1.35.0. For a version,
// components/kubernetes/upgrade.sh must have written the module file.
type Release string

const (
	// Latest is the release that Rollcall is built with.
	Latest Release = "latest"
	// OldestSupported is the oldest release that Rollcall supports.
	OldestSupported Release = "oldest"
)

// ReleaseEnv is the environment variable with the default of Options.Release. It runs the same
// tests on another release.
const ReleaseEnv = "ROLLCALL_TEST_KUBERNETES"

// DefaultRelease returns the release for a zero Options.Release: the value of ReleaseEnv, or
// Latest.
func DefaultRelease() Release { return cmp.Or(Release(os.Getenv(ReleaseEnv)), Latest) }

var versionPattern = regexp.MustCompile(`^v1\.\d+\.\d+$`)

// component returns the program of the release.
func (r Release) component() component {
	c := kubernetesComponent
	if r == Latest {
		return c
	}
	c.variant = string(r)
	if versionPattern.MatchString(c.variant) && semver.Compare(c.variant, "v1.34.0") < 0 {
		c.tags = string(OldestSupported) // it has the functions of the oldest release
	}
	return c
}

// Minor returns the minor version of Kubernetes, such as 35; 0 for a release that no cluster can run.
func (r Release) Minor() int {
	version, _ := r.component().requiredVersion()
	minor, _ := strconv.Atoi(strings.TrimPrefix(semver.MajorMinor(version), "v1."))
	return minor
}

// defaultKwokNodes is small enough to be fast and large enough to spread a gang.
const defaultKwokNodes = 10

// Options configures a cluster. The zero value is a control plane without nodes.
type Options struct {
	// Nodes is the kind of nodes. The zero value means NoNodes.
	Nodes NodeKind
	// KwokNodes is the number of simulated nodes. The zero value means 10. It is valid only with
	// Kwok.
	KwokNodes int
	// RealNodes is the number of real nodes, at most 16. The zero value means 1. It is valid only with Real.
	RealNodes int
	// NodeLabels are the labels of the real nodes, one text such as "topology.kubernetes.io/zone=a,example.com/rack=r1"
	// for each node. Nodes without a text have no labels of their own.
	NodeLabels []string
	// Release is the Kubernetes release. The zero value means DefaultRelease.
	Release Release
	// Name is the name of the cluster and of its directory below the cache directory: at most 40
	// lower-case letters, digits and hyphens. The zero value means a generated name. The name of a
	// running cluster is an error.
	Name string
	// Port is the port of the API server. The zero value means a free port. A port in use is an
	// error.
	Port int
	// FeatureGates are set on every component of Kubernetes.
	FeatureGates map[string]bool
	// EtcdFlags, APIServerFlags, ControllerManagerFlags and SchedulerFlags are additional flags, for example
	// "--v=4". They follow the default flags and override them.
	EtcdFlags, APIServerFlags, ControllerManagerFlags, SchedulerFlags []string
	// APIServerMemoryLimit is the value of GOMEMLIMIT for the API server, for example "11GiB". Without a limit, it
	// grows to twice the size of its cache.
	APIServerMemoryLimit string
	// Images are loaded into a Real cluster before Up returns.
	Images []ImageSource
	// Detached lets the cluster outlive this process. It runs until Down or "cluster down" stops
	// it.
	Detached bool
	// Progress receives a line for each step with its duration. The zero value means os.Stderr.
	Progress io.Writer
}

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// completeAndValidate returns the options with all defaults set, or an error that names the invalid
// field.
func (o Options) completeAndValidate() (Options, error) {
	switch o.Nodes {
	case "":
		o.Nodes = NoNodes
	case NoNodes, Kwok, Real:
	default:
		return o, fmt.Errorf("option Nodes: %q is not one of %q, %q, %q", o.Nodes, NoNodes, Kwok, Real)
	}
	o.Release = cmp.Or(o.Release, DefaultRelease())
	if o.Release != Latest && o.Release != OldestSupported && !versionPattern.MatchString(string(o.Release)) {
		return o, fmt.Errorf("option Release, or %s: %q is not %q, %q or a version such as v1.35.0",
			ReleaseEnv, o.Release, Latest, OldestSupported)
	}
	if err := o.completeNodeCounts(); err != nil {
		return o, err
	}
	if o.Port < 0 || o.Port > 65535 {
		return o, fmt.Errorf("option Port: %d is not between 0 and 65535", o.Port)
	}
	if o.Name == "" {
		o.Name = generateName(o.Nodes)
	}
	if !namePattern.MatchString(o.Name) {
		return o, fmt.Errorf("option Name: %q must be 1 to 40 lower-case letters, digits and hyphens", o.Name)
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	return o, nil
}

// completeNodeCounts sets the default numbers of nodes, or returns an error that names the invalid field.
func (o *Options) completeNodeCounts() error {
	if o.KwokNodes < 0 || (o.KwokNodes > 0 && o.Nodes != Kwok) {
		return fmt.Errorf("option KwokNodes: %d simulated nodes require the kind %q, not %q", o.KwokNodes, Kwok, o.Nodes)
	}
	if o.Nodes == Kwok && o.KwokNodes == 0 {
		o.KwokNodes = defaultKwokNodes
	}
	if o.RealNodes < 0 || o.RealNodes > maxRealNodes || (o.RealNodes > 0 && o.Nodes != Real) {
		return fmt.Errorf("option RealNodes: %d real nodes require the kind %q, not %q, and at most %d are possible",
			o.RealNodes, Real, o.Nodes, maxRealNodes)
	}
	if len(o.NodeLabels) > max(o.RealNodes, 1) || len(o.NodeLabels) > 0 && o.Nodes != Real {
		return fmt.Errorf("option NodeLabels: labels of %d nodes, which the cluster does not have", len(o.NodeLabels))
	}
	if o.Nodes == Real && o.RealNodes == 0 {
		o.RealNodes = 1
	}
	return nil
}
