package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"rollcall.training/gang"
)

// Record is what an admission leaves in the annotation [gang.AnnotationInjected]:
// for people, what was added and by which injector; for the next admission of the
// same object, what is Rollcall's to change.
//
// Each place carries a digest of the value that was put there. A place whose value
// is another by then has been edited, and counts as the user's.
type Record struct {
	// By is the injector's name.
	By string `json:"by"`
	// Build is the build of Rollcall that did it, where it said (gang.Config).
	Build string `json:"build,omitempty"`
	// Env and Resources are by container and name, Mounts by container and path.
	Env       map[string]digests `json:"env,omitempty"`
	Mounts    map[string]digests `json:"mounts,omitempty"`
	Resources map[string]digests `json:"resources,omitempty"`
	// Inits, Commands, Restarts and LastWords are by container.
	Inits     digests `json:"inits,omitempty"`
	Commands  digests `json:"commands,omitempty"`
	Restarts  digests `json:"restarts,omitempty"`
	LastWords digests `json:"lastWords,omitempty"`
	// Volumes, Labels and Searches are those of the pod template.
	Volumes  digests `json:"volumes,omitempty"`
	Labels   digests `json:"labels,omitempty"`
	Searches digests `json:"searches,omitempty"`
	// Fields are values below spec, by their path.
	Fields map[string]string `json:"fields,omitempty"`
	// Size is the number of ranks that a StatefulSet's ranks were told; 0 when it
	// never had any replicas.
	Size int32 `json:"size,omitempty"`
}

// digests are digests of values, by name.
type digests map[string]string

// ReadRecord reads the record of an earlier admission. It returns nil when there
// is none, and an error when the annotation holds something else.
func ReadRecord(w gang.Workload) (*Record, error) {
	text, ok := w.Meta().Annotations[gang.AnnotationInjected]
	if !ok {
		return nil, nil
	}
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("reading the annotation %s: %w", gang.AnnotationInjected, err)
	}
	return &r, nil
}

func (r *Record) write(w gang.Workload) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the annotation %s: %w", gang.AnnotationInjected, err)
	}
	meta := w.Meta()
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[gang.AnnotationInjected] = string(text)
	return nil
}

// slotKind is a kind of place in a workload that Rollcall can fill.
type slotKind int

const (
	slotEnv slotKind = iota
	slotMount
	slotResource
	slotInit
	slotCommand
	slotRestart
	slotLastWords
	slotVolume
	slotLabel
	slotSearch
)

// slot is one such place. The container is empty for places of the template, and the
// name for a container as a whole and for its command; the name of a mount is its
// path.
type slot struct {
	kind            slotKind
	container, name string
}

// intact lists the recorded places whose values are still the recorded ones.
func (r *Record) intact(p *pod) map[slot]bool {
	out := map[slot]bool{}
	each := func(kind slotKind, container string, d digests) {
		for name, digest := range d {
			if s := (slot{kind, container, name}); p.digest(s) == digest {
				out[s] = true
			}
		}
	}
	byContainer := func(kind slotKind, m map[string]digests) {
		for container, d := range m {
			each(kind, container, d)
		}
	}
	byContainer(slotEnv, r.Env)
	byContainer(slotMount, r.Mounts)
	byContainer(slotResource, r.Resources)
	each(slotVolume, "", r.Volumes)
	each(slotLabel, "", r.Labels)
	each(slotSearch, "", r.Searches)
	whole := func(kind slotKind, d digests) {
		for container := range d {
			each(kind, container, digests{"": d[container]})
		}
	}
	whole(slotInit, r.Inits)
	whole(slotCommand, r.Commands)
	whole(slotRestart, r.Restarts)
	whole(slotLastWords, r.LastWords)
	return out
}

// Whole reports whether all recorded places of w still hold what was put there.
func (r *Record) Whole(w gang.Workload) bool {
	return len(r.intact(newPod(w.Template()))) == r.places()
}

// places counts the recorded places.
func (r *Record) places() int {
	n := len(r.Volumes) + len(r.Labels) + len(r.Searches) + len(r.Inits) + len(r.Commands) + len(r.Restarts) + len(r.LastWords)
	for _, m := range []map[string]digests{r.Env, r.Mounts, r.Resources} {
		for _, d := range m {
			n += len(d)
		}
	}
	return n
}

// add records one place with the value that it holds now.
func (r *Record) add(p *pod, s slot) {
	put := func(m *map[string]digests) {
		if *m == nil {
			*m = map[string]digests{}
		}
		if (*m)[s.container] == nil {
			(*m)[s.container] = digests{}
		}
		(*m)[s.container][s.name] = p.digest(s)
	}
	single := func(d *digests, name string) {
		if *d == nil {
			*d = digests{}
		}
		(*d)[name] = p.digest(s)
	}
	switch s.kind {
	case slotEnv:
		put(&r.Env)
	case slotMount:
		put(&r.Mounts)
	case slotResource:
		put(&r.Resources)
	case slotInit:
		single(&r.Inits, s.container)
	case slotCommand:
		single(&r.Commands, s.container)
	case slotRestart:
		single(&r.Restarts, s.container)
	case slotLastWords:
		single(&r.LastWords, s.container)
	case slotVolume:
		single(&r.Volumes, s.name)
	case slotLabel:
		single(&r.Labels, s.name)
	case slotSearch:
		single(&r.Searches, s.name)
	}
}

// digest is a digest of the value at a place, "" when there is none.
func (p *pod) digest(s slot) string {
	v := p.value(s)
	if v == nil {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "" // cannot be one of ours, which can all be encoded
	}
	return digest(text)
}

// digest shortens a hash to 32 bits: it is compared with one other value, and
// guards against slips, not attacks; whoever can edit the annotation can edit the
// workload.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}
