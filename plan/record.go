package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"rollcall.training/gang"
)

// Record is what an admission leaves in the annotation [gang.AnnotationInjected]:
// for people, what was added and by which injector; for the next admission of the
// same object, what is Rollcall's to change.
type Record struct {
	// By is the injector's name.
	By string `json:"by"`
	// Env, Mounts and Resources list names by container; Volumes and Labels are
	// those of the pod template; Fields are paths below spec.
	Env       map[string][]string `json:"env,omitempty"`
	Mounts    map[string][]string `json:"mounts,omitempty"`
	Resources map[string][]string `json:"resources,omitempty"`
	Volumes   []string            `json:"volumes,omitempty"`
	Labels    []string            `json:"labels,omitempty"`
	Fields    []string            `json:"fields,omitempty"`
	// Sum is a digest of the recorded values. When it does not match, somebody
	// edited them, and they count as the user's.
	Sum string `json:"sum"`
	// Inputs is a digest of what the user wrote, and Size the number of ranks, for
	// workloads that are admitted again on each update.
	Inputs string `json:"inputs,omitempty"`
	Size   int32  `json:"size,omitempty"`
}

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
	slotVolume
	slotLabel
)

// slot is one such place. The container is empty for places of the template.
type slot struct {
	kind            slotKind
	container, name string
}

// slots lists the recorded places in a fixed order.
func (r *Record) slots() []slot {
	var out []slot
	byContainer := func(kind slotKind, m map[string][]string) {
		for _, c := range slices.Sorted(maps.Keys(m)) {
			for _, n := range m[c] {
				out = append(out, slot{kind, c, n})
			}
		}
	}
	byContainer(slotEnv, r.Env)
	byContainer(slotMount, r.Mounts)
	byContainer(slotResource, r.Resources)
	for _, n := range r.Volumes {
		out = append(out, slot{kind: slotVolume, name: n})
	}
	for _, n := range r.Labels {
		out = append(out, slot{kind: slotLabel, name: n})
	}
	return out
}

// add records one place.
func (r *Record) add(s slot) {
	put := func(m *map[string][]string) {
		if *m == nil {
			*m = map[string][]string{}
		}
		(*m)[s.container] = append((*m)[s.container], s.name)
	}
	switch s.kind {
	case slotEnv:
		put(&r.Env)
	case slotMount:
		put(&r.Mounts)
	case slotResource:
		put(&r.Resources)
	case slotVolume:
		r.Volumes = append(r.Volumes, s.name)
	case slotLabel:
		r.Labels = append(r.Labels, s.name)
	}
}

// sum digests the present values of the recorded places.
func (r *Record) sum(p *pod) (string, error) {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, s := range r.slots() {
		if err := enc.Encode([]any{s.kind, s.container, s.name, p.value(s)}); err != nil {
			return "", fmt.Errorf("digesting %s: %w", s.name, err)
		}
	}
	return digest(h.Sum(nil)), nil
}

// digest shortens a hash to 64 bits: it guards against slips, not attacks, since
// whoever can edit the annotation can edit the workload.
func digest(sum []byte) string { return hex.EncodeToString(sum[:8]) }
