package ir

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// ConvertSuspend converts a field that suspends the job.
func (b *Gang) ConvertSuspend(f source.Field) {
	if suspend := f.Bool(); ptr.Deref(suspend, false) {
		b.JobSpec.Suspend = suspend
	}
	f.MarkPreserved("spec.suspend of each Job")
}

// ConvertTTL converts the number of seconds after which the finished job is deleted. See [Gang.Build]
// for gangs of several workloads.
func (b *Gang) ConvertTTL(f source.Field) {
	seconds := f.Int32()
	switch {
	case seconds == nil:
		return
	case *seconds < 0:
		f.MarkInvalid("must be 0 or more")
		return
	}
	b.JobSpec.TTLSecondsAfterFinished, b.TTLField = seconds, f
	f.MarkPreserved("spec.ttlSecondsAfterFinished of each Job")
}

// ConvertManagedBy converts the name of the controller of the job. Controllers whose name starts with
// the given API group are those of the former system, and not copied.
func (b *Gang) ConvertManagedBy(f source.Field, group string) {
	name := f.String()
	switch {
	case name == "":
	case strings.HasPrefix(name, group+"/"):
		f.MarkLeftOut("the controller of the former system does not manage Jobs")
	default:
		b.JobSpec.ManagedBy = ptr.To(name)
		f.MarkPreserved("spec.managedBy of each Job")
	}
}

// ConvertPort converts the rendezvous port.
func (b *Gang) ConvertPort(f source.Field, port int32) {
	const defaultPort = "the default port of the framework"
	framework, _ := b.Frameworks.Find(b.Framework)
	switch {
	case port == framework.Port:
		f.MarkPreserved(defaultPort)
	case port < gang.MinPort:
		f.MarkChanged(defaultPort, fmt.Sprintf("ports below %d require a privileged container", gang.MinPort), "")
	default:
		b.SetAnnotation(gang.AnnotationPort, fmt.Sprint(port))
		f.MarkPreserved("annotation " + gang.AnnotationPort)
	}
}

// mpiImplementations maps the names of Kubeflow to those of Rollcall.
var mpiImplementations = map[string]gang.MPIImplementation{
	"": gang.OpenMPI, "OpenMPI": gang.OpenMPI, "Intel": gang.IntelMPI, "MPICH": gang.MPICH,
}

// ConvertMPIImplementation converts the implementation of MPI.
func (b *Gang) ConvertMPIImplementation(f source.Field) {
	implementation, ok := mpiImplementations[f.String()]
	switch {
	case !ok:
		f.MarkInvalid("must be OpenMPI, Intel or MPICH")
		return
	case implementation != gang.OpenMPI:
		b.SetAnnotation(gang.AnnotationMPIImplementation, string(implementation))
	}
	f.MarkPreserved("annotation " + gang.AnnotationMPIImplementation + ", whose default is " + string(gang.OpenMPI))
}
