package policy

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	podsecuritypolicy "k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// anyFramework is the key of [ImagesLimit.Allow] for frameworks without a key.
const anyFramework = "*"

// maxShownImages is the maximum number of registries and repositories in the message for each image.
const maxShownImages = 10

// imageID matches the ID of an image, also a part of its digits. It is a valid name of an image with a tag in Docker
// Hub, but containerd resolves it to the image on the node with the ID (internal/cri, LocalResolve).
var imageID = regexp.MustCompile(`^sha(256|384|512):[0-9a-f]+$`)

func (l *ImagesLimit) validate(r *reader, path string) {
	for _, framework := range slices.Sorted(maps.Keys(l.Allow)) {
		frameworkPath := fmt.Sprintf("%s.allow[%s]", path, framework)
		if framework != anyFramework {
			r.checkFramework(frameworkPath, framework)
		}
		for i, entry := range l.Allow[framework] {
			r.validateImageEntry(fmt.Sprintf("%s[%d]", frameworkPath, i), entry)
		}
	}
	for i, entry := range l.Deny {
		r.validateImageEntry(fmt.Sprintf("%s.deny[%d]", path, i), entry)
	}
}

// validateImageEntry reports an entry that is not a registry or a repository, or that matches less than
// it seems to.
func (r *reader) validateImageEntry(path, entry string) {
	name := strings.TrimSuffix(entry, "/")
	if name == "" || strings.ContainsAny(entry, "*@ ") {
		r.add(path, "must be a registry or a repository without a pattern, such as registry.example.com/hpc")
		return
	}
	first, rest, hasPath := strings.Cut(name, "/")
	if repository, _, hasTag := strings.Cut(rest, ":"); hasTag {
		r.add(path, "matches no image, because it has a tag; write %s/%s", first, repository)
		return
	}
	switch isRegistry := strings.ContainsAny(first, ".:") || first == "localhost"; {
	case !isRegistry && hasPath:
		r.add(path, "%q has no registry, so it matches no image; write docker.io/%s", entry, name)
	case !isRegistry:
		r.add(path, "%q has no registry, so it matches no image; write docker.io/library/%s", entry, name)
	case !strings.Contains(entry, "/"):
		r.advise(path, "matches this registry only, and never a longer name such as %s.example.net; write %s/",
			entry, entry)
	}
}

func (l *ImagesLimit) check(_ string, f facts, v *violations) {
	allowed, restricted := l.Allow[f.Gang.Framework.Name]
	if !restricted {
		allowed, restricted = l.Allow[anyFramework]
	}
	allowedNames := gang.SummarizeNames(allowed, maxShownImages)
	allowed, denied := normalizeEntries(allowed), normalizeEntries(l.Deny)
	for _, image := range f.images {
		if imageID.MatchString(image.value) {
			v.add(image.path, image.value, "is the ID of an image on the node, which can come from any registry; "+
				"write the name of the image, such as registry.example.com/train@sha256:…")
			continue
		}
		named, err := reference.ParseNormalizedNamed(image.value)
		if err != nil {
			continue // the API server accepts the image, and the kubelet reports that it is invalid
		}
		name := normalizeName(named.Name())
		matches := func(entry string) bool { return containsImage(entry, name) }
		entry := slices.IndexFunc(denied, matches)
		_, hasDigest := named.(reference.Digested)
		switch {
		case restricted && !slices.ContainsFunc(allowed, matches):
			v.add(image.path, image.value, "is %s, which is not allowed; allowed are %s", named.Name(), allowedNames)
		case entry >= 0:
			v.add(image.path, image.value, "is %s, and images of %s are not allowed", named.Name(), l.Deny[entry])
		case l.Digests && !hasDigest:
			v.add(image.path, image.value, "must have a digest, such as image@sha256:…")
		}
	}
}

// normalizeEntries returns the normalized names of registries and repositories.
func normalizeEntries(entries []string) []string {
	var names []string
	for _, entry := range entries {
		names = append(names, normalizeName(strings.TrimSuffix(entry, "/")))
	}
	return names
}

// containsImage reports whether the image with a normalized name belongs to a normalized registry or repository. The
// entry matches entire components of the path.
func containsImage(entry, name string) bool {
	rest, ok := strings.CutPrefix(name, entry)
	return ok && (rest == "" || rest[0] == '/')
}

// dockerHub are the other names of the registry docker.io.
var dockerHub = []string{"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"}

// normalizeName returns the name of a repository in the same form for all names of its registry. Domains have no
// case, and 443 is the default port. The path of an image is in lower case anyway.
func normalizeName(name string) string {
	registry, path, hasPath := strings.Cut(strings.ToLower(name), "/")
	if host, port, ok := strings.Cut(registry, ":"); ok && strings.TrimLeft(port, "0") == "443" {
		registry = host
	}
	if slices.Contains(dockerHub, registry) {
		registry = "docker.io"
	}
	if !hasPath {
		return registry
	}
	return registry + "/" + path
}

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

// remoteStoragePattern matches URLs of storage that programs write to without a volume.
var remoteStoragePattern = regexp.MustCompile(`\b(s3a?|s3n|gs|gcs|abfss?|wasbs?|azure|az|hdfs|viewfs|oss|cos|` +
	`cosn|tos|obs|hf|swift|alluxio|jfs|juicefs|dbfs|r2|b2|mlflow-artifacts|wandb-artifact)://`)

// SavesCheckpoints reports whether a training container of a gang can write data that outlives its pod:
// to a volume, or to a storage URL in its command or in a variable.
func SavesCheckpoints(g gang.Gang, spec corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		isTraining := func(t gang.Container) bool { return t.Name == c.Name }
		return slices.ContainsFunc(g.Containers, isTraining) &&
			(namesRemoteStorage(c) || mountsLastingVolume(c, spec.Volumes))
	})
}

func namesRemoteStorage(c corev1.Container) bool {
	return slices.ContainsFunc(slices.Concat(c.Command, c.Args), isRemoteStorage) ||
		slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return isRemoteStorage(e.Value) })
}

// isRemoteStorage reports whether a text contains a URL of a storage. Few texts contain a URL, and the pattern takes
// longer for 50 variables than the injection.
func isRemoteStorage(text string) bool {
	return strings.Contains(text, "://") && remoteStoragePattern.MatchString(text)
}

func mountsLastingVolume(c corev1.Container, volumes []corev1.Volume) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(mount corev1.VolumeMount) bool {
		return !mount.ReadOnly && volumeOutlivesPod(mount.Name, volumes)
	})
}

// volumeOutlivesPod reports whether a volume is writable and keeps its data when the pod is deleted. It
// returns true for unknown types of volumes, and for the volumes of volumeClaimTemplates.
func volumeOutlivesPod(name string, volumes []corev1.Volume) bool {
	for _, v := range volumes {
		if v.Name != name {
			continue
		}
		s := v.VolumeSource
		switch {
		case s.EmptyDir != nil, s.Ephemeral != nil, s.ConfigMap != nil, s.Secret != nil, s.DownwardAPI != nil,
			s.Projected != nil, s.Image != nil, s.GitRepo != nil:
			return false
		case s.PersistentVolumeClaim != nil:
			return !s.PersistentVolumeClaim.ReadOnly
		}
		return true
	}
	return true
}

func (l *CheckpointLimit) check(_ string, f facts, v *violations) {
	whenRestarts, path := ptr.Deref(l.WhenRestarts, 1), podSpecPath.Child("volumes").String()
	switch {
	case f.checkpoints, f.restarts < whenRestarts, f.size < ptr.Deref(l.MinSize, 1):
	case f.checkpointsUnknown:
		v.add(path, "", "it is not known yet whether another member saves checkpoints").Unknown = true
	default:
		v.add(path, "", "the gang can restart %s, but nothing outlives its pods, so each attempt starts from scratch; "+
			"mount a PersistentVolumeClaim in the training container, or set %s: \"%d\"",
			gang.FormatCount(f.restarts, "time"), gang.AnnotationMaxRestarts, max(whenRestarts-1, 0))
	}
}
