package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/trainer"
)

// fromCluster is where reports say that live objects come from.
const fromCluster = "the cluster"

// resource is a kind that the cluster serves and that can be migrated.
type resource struct {
	metav1.APIResource
	version schema.GroupVersion
}

// live is what a cluster holds of other systems.
type live struct {
	jobs, runtimes []*manifest.Document
	// left reports what was left out, and why.
	left []migrate.Report
}

// jobs reads the training jobs that live in the cluster: those that the arguments name,
// as KIND or KIND/NAME, or all. Jobs that another object made, such as the JobSet of a
// TrainJob, are left out unless they are named. The runtimes, of which jobs are made, come
// by themselves.
func (c *clusterFlags) jobs(ctx context.Context, args []string) (live, error) {
	config, namespace, err := c.find()
	if err != nil {
		return live{}, err
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return live{}, fmt.Errorf("connecting to the cluster: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return live{}, fmt.Errorf("connecting to the cluster: %w", err)
	}
	kinds, err := served(asked)
	if err != nil {
		return live{}, err
	}
	w := wanted{client: client, namespace: namespace}
	err = w.read(ctx, kinds, args)
	return w.found, err
}

// served lists what the cluster serves of the systems that can be migrated from, each
// kind once.
func served(client discovery.DiscoveryInterface) ([]resource, error) {
	lists, err := discovery.ServerPreferredResources(client)
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("asking the cluster for its kinds: %w", err)
	}
	var out []resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !migrate.Knows(gv.Group) {
			continue
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") {
				out = append(out, resource{r, gv})
			}
		}
	}
	return out, nil
}

// wanted reads what a user asks for.
type wanted struct {
	client    dynamic.Interface
	namespace string
	found     live
}

func (w *wanted) read(ctx context.Context, served []resource, args []string) error {
	if len(served) == 0 {
		return errors.New("the cluster serves no kind that can be migrated: no operator of another system is installed")
	}
	for _, r := range served {
		names, asked := named(r, args)
		isRuntime := trainer.IsRuntime(r.Kind)
		if len(args) > 0 && !asked && !isRuntime {
			continue
		}
		found, err := w.list(ctx, r, names)
		if err != nil {
			return err
		}
		if isRuntime {
			w.found.runtimes = append(w.found.runtimes, found...)
		} else {
			w.found.jobs = append(w.found.jobs, found...)
		}
	}
	for _, arg := range args {
		if !slices.ContainsFunc(served, func(r resource) bool { _, ok := named(r, []string{arg}); return ok }) {
			return fmt.Errorf("the cluster serves no %q that can be migrated", strings.Split(arg, "/")[0])
		}
	}
	return nil
}

// leave reports an object, or a kind, that is left out.
func (w *wanted) leave(object, path, reason, do string) {
	w.found.left = append(w.found.left, migrate.Report{Source: fromCluster, Object: object,
		Entries: []ledger.Entry{{Path: path, Outcome: ledger.Changed, Reason: "left out: " + reason, Do: do}}})
}

// named are the names that the arguments give for a kind; none means all of them. It is
// false when no argument names the kind.
func named(r resource, args []string) (names []string, asked bool) {
	for _, arg := range args {
		kind, name, one := strings.Cut(arg, "/")
		kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
		if kind != r.Name && kind != r.SingularName && kind != strings.ToLower(r.Kind) && !slices.Contains(r.ShortNames, kind) {
			continue
		}
		asked = true
		if one {
			names = append(names, name)
		}
	}
	return names, asked
}

func (w *wanted) list(ctx context.Context, r resource, names []string) ([]*manifest.Document, error) {
	var client dynamic.ResourceInterface = w.client.Resource(r.version.WithResource(r.Name))
	if r.Namespaced {
		client = w.client.Resource(r.version.WithResource(r.Name)).Namespace(w.namespace)
	}
	var items []unstructured.Unstructured
	for _, name := range names {
		one, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading %s/%s: %w", r.Name, name, err)
		}
		items = append(items, *one)
	}
	if len(names) == 0 {
		all, err := client.List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err) || meta.IsNoMatchError(err):
			w.leave(r.Kind, "metadata", err.Error(), "ask for the right to list "+r.Name)
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", r.Name, err)
		}
		items = all.Items
	}
	var docs []*manifest.Document
	for i := range items {
		o := &items[i]
		if owner := metav1.GetControllerOf(o); owner != nil && len(names) == 0 {
			w.leave(fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()), "metadata.ownerReferences",
				fmt.Sprintf("%s %s made it, and would make it again", owner.Kind, owner.Name), "migrate that one, or name this one")
			continue
		}
		d, err := manifest.Of(fromCluster, o)
		if err != nil {
			return nil, err
		}
		d.Number = i + 1
		docs = append(docs, d)
	}
	return docs, nil
}
