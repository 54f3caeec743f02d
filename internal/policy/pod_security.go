package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	podsecuritypolicy "k8s.io/pod-security-admission/policy"
)

// newPodSecurityEvaluator returns the evaluator of the Pod Security Standards, which all policies share.
var newPodSecurityEvaluator = sync.OnceValues(func() (podsecuritypolicy.Evaluator, error) {
	return podsecuritypolicy.NewEvaluator(podsecuritypolicy.DefaultChecks(), nil)
})

// latestPodSecurityMinor is the minor version of the newest standards that this build contains: that of
// the library, k8s.io/pod-security-admission.
const latestPodSecurityMinor = 37

func (l *PodSecurityLimit) validate(r *reader, fieldPath string) {
	level := podsecurity.Level(l.Level)
	switch {
	case level == "":
		r.add(fieldPath+".level", "is required; use baseline or restricted")
	case level == podsecurity.LevelPrivileged:
		r.add(fieldPath+".level", "privileged allows everything; remove the limit, or use baseline or restricted")
	case !level.Valid():
		r.add(fieldPath+".level", "%q is not a level; use baseline or restricted", l.Level)
	}
	version, err := podsecurity.ParseVersion(cmp.Or(l.Version, podsecurity.VersionLatest))
	if err != nil || !version.Latest() && version.Minor() > latestPodSecurityMinor {
		r.add(fieldPath+".version", "%q is not a version; use latest, or v1.0 to v1.%d", l.Version, latestPodSecurityMinor)
	}
	l.required = podsecurity.LevelVersion{Level: level, Version: version}
	for i, directory := range l.Allow.HostPaths {
		if !path.IsAbs(directory) || path.Clean(directory) != directory || directory == "/" {
			r.add(fmt.Sprintf("%s.allow.hostPaths[%d]", fieldPath, i),
				"%q must be the absolute path of a directory, such as /dev/infiniband", directory)
		}
	}
	for i, capability := range l.Allow.Capabilities {
		name := strings.TrimPrefix(strings.ToUpper(string(capability)), "CAP_")
		if name == "ALL" || name != string(capability) {
			r.add(fmt.Sprintf("%s.allow.capabilities[%d]", fieldPath, i),
				"%q must be one capability in the form of a container, such as IPC_LOCK", capability)
		}
	}
}

func (l *PodSecurityLimit) check(_ string, f facts, v *violations) {
	evaluator, err := newPodSecurityEvaluator()
	if err != nil { // only a wrong build of the library
		v.add(podSpecPath.String(), "", "cannot be judged: %v", err)
		return
	}
	spec := l.Allow.removeFrom(f.Workload.Template().Spec)
	for _, result := range evaluator.EvaluatePod(l.required, &f.Workload.Template().ObjectMeta, &spec) {
		if result.Allowed {
			continue
		}
		detail := ""
		if result.ForbiddenDetail != "" {
			detail = " (" + result.ForbiddenDetail + ")"
		}
		v.add(podSpecPath.String(), result.ForbiddenReason,
			"%s%s: the Pod Security Standard %s does not allow this; remove it", result.ForbiddenReason, detail, l.required)
	}
}

// removeFrom returns a copy of a pod without the allowed parts, which the standards then do not judge.
func (e PodSecurityExceptions) removeFrom(original corev1.PodSpec) corev1.PodSpec {
	spec := original.DeepCopy()
	if e.HostIPC {
		spec.HostIPC = false
	}
	keepHostPorts := !e.HostNetwork || !spec.HostNetwork
	if e.HostNetwork {
		spec.HostNetwork = false
	}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && e.containsPath(v.HostPath.Path)
	})
	for i := range spec.Volumes {
		if spec.Volumes[i].VolumeSource == (corev1.VolumeSource{}) {
			spec.Volumes[i].EmptyDir = &corev1.EmptyDirVolumeSource{} // the default of the API server
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if c.SecurityContext != nil && c.SecurityContext.Capabilities != nil {
				added := &c.SecurityContext.Capabilities.Add
				*added = slices.DeleteFunc(*added, func(capability corev1.Capability) bool {
					return slices.Contains(e.Capabilities, capability)
				})
			}
			for j := range c.Ports {
				if !keepHostPorts {
					c.Ports[j].HostPort = 0
				}
			}
		}
	}
	return *spec
}

// containsPath reports whether a path of the node is one of the allowed directories or below it. The
// parts of a path with .. are not allowed, because the kubelet resolves them.
func (e PodSecurityExceptions) containsPath(hostPath string) bool {
	if slices.Contains(strings.Split(hostPath, "/"), "..") {
		return false
	}
	cleaned := path.Clean(hostPath)
	return slices.ContainsFunc(e.HostPaths, func(directory string) bool {
		return cleaned == directory || strings.HasPrefix(cleaned, directory+"/")
	})
}
