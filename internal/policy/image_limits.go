package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"

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
