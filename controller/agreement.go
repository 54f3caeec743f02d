package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// patience is how long nothing is said of a member that is not there: members are
// created, and deleted, one after the other, and each word costs a write.
const patience = 5 * time.Second

// trouble says what keeps a gang of several from being one: members that contradict
// each other, or that are missing. The Status is the zero value when there is nothing;
// false asks to leave all as it is for a moment.
func (r *Reconciler) trouble(ctx context.Context, p *party) (gang.Status, bool) {
	missing := p.roll.Missing()
	voices := p.voices()
	if waited, wait := r.missed(p, len(missing) > 0); wait {
		p.look.again(patience - waited)
		return gang.Status{}, false
	} else if len(missing) > 0 {
		voices = append(voices, r.strays(ctx, p, missing)...)
	}
	if said := gang.Disagreements(voices); len(said) > 0 {
		return gang.Status{Reason: gang.ReasonMembersDisagree,
			Message: "The workloads of the gang contradict each other: " + strings.Join(said, "; ")}, true
	}
	if len(missing) > 0 {
		return gang.Status{Reason: gang.ReasonMembersMissing, Message: p.roll.Describe(gang.Pending)}, true
	}
	return gang.Status{}, true
}

// missed says for how long members have been missing, and whether that is a matter of
// patience yet.
func (r *Reconciler) missed(p *party, missing bool) (time.Duration, bool) {
	kept := r.memory.of(p.look.request)
	if !missing {
		kept.missingSince = time.Time{}
		return 0, false
	}
	if kept.missingSince.IsZero() {
		kept.missingSince = r.Clock.Now()
	}
	waited := r.Clock.Since(kept.missingSince)
	return waited, waited < patience
}

// voices are what the gang's workloads say of it.
func (p *party) voices() []gang.Voice {
	var out []gang.Voice
	for _, m := range p.members {
		out = append(out, m.voice())
	}
	return out
}

func (m member) voice() gang.Voice {
	v := gang.Voice{Kind: m.Kind(), Workload: m.Meta().Name}
	switch {
	case m.result != nil:
		v.Gang = m.result.Gang
	case m.unread != nil:
		v.Silent = "cannot be read: " + strings.Join(injectors.Causes(m.unread), "; ")
	default:
		v.Silent = "was admitted without Rollcall; delete it, and create it anew"
	}
	return v
}

// strays looks where missing members may be: under their names, but of no gang or of
// another, or in another namespace.
func (r *Reconciler) strays(ctx context.Context, p *party, missing []gang.Member) []gang.Voice {
	var out []gang.Voice
	for _, m := range missing {
		for _, kind := range []gang.Kind{gang.Job, gang.StatefulSet} {
			w, _ := gang.NewWorkload(kind)
			key := client.ObjectKey{Namespace: p.look.request.Namespace, Name: m.Workload}
			if r.Client.Get(ctx, key, w.Object().(client.Object)) != nil || w.Meta().DeletionTimestamp != nil {
				continue // missing indeed; the cache has no other errors
			}
			v := r.read(w).voice()
			if w.OptedOut() {
				v.Silent = fmt.Sprintf("has the label %s: \"false\"; delete it, and create it anew without", gang.LabelInject)
			}
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		out = r.elsewhere(ctx, p, missing)
	}
	return out
}

// elsewhere looks for missing members in other namespaces: for those that say the same
// of their gang, and lack in turn what this one has. So two teams whose gangs have the
// same name hear nothing of each other. Nobody tells us when such a member comes, so we
// look again.
func (r *Reconciler) elsewhere(ctx context.Context, p *party, missing []gang.Member) []gang.Voice {
	lead := p.lead().Gang
	p.look.again(pace(r.Clock.Since(p.first().Meta().CreationTimestamp.Time)))
	workloads, err := r.list(ctx, indexSeveral, "", lead.Name)
	if err != nil {
		return nil
	}
	there := map[string][]gang.Workload{}
	for _, w := range workloads {
		if ns := w.Meta().Namespace; ns != lead.Namespace && w.Meta().DeletionTimestamp == nil {
			there[ns] = append(there[ns], w)
		}
	}
	var out []gang.Voice
	for namespace, others := range there {
		if slices.ContainsFunc(others, func(w gang.Workload) bool { return !r.fills(w, lead, missing) }) {
			continue
		}
		for _, w := range others {
			out = append(out, gang.Voice{Kind: w.Kind(), Workload: w.Meta().Name, Silent: fmt.Sprintf(
				"is in the namespace %s, and the rest of the gang in %s; create all workloads of a gang in one namespace", namespace, lead.Namespace)})
		}
	}
	slices.SortFunc(out, func(a, b gang.Voice) int { return cmp.Compare(a.Silent, b.Silent) })
	return out
}

// fills reports whether a workload of another namespace would be one of the missing
// members here.
func (r *Reconciler) fills(w gang.Workload, lead gang.Gang, missing []gang.Member) bool {
	if !slices.ContainsFunc(missing, func(m gang.Member) bool { return m.Workload == w.Meta().Name }) {
		return false
	}
	v := r.read(w).voice()
	return v.Silent == "" && len(gang.Disagreements([]gang.Voice{{Gang: lead}, v})) == 0
}
