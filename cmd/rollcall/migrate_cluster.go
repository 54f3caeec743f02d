package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/trainer"
)

// resource is a kind that the cluster serves and that can be migrated.
type resource struct {
	metav1.APIResource
	version schema.GroupVersion
}

// jobs reads the training jobs that live in the cluster: those that the arguments name,
// as KIND or KIND/NAME, or all. Jobs that another object made, such as the JobSet of a
// TrainJob, are left out, and named on stderr. The runtimes, of which jobs are made, come
// by themselves.
func (c *clusterFlags) jobs(ctx context.Context, stderr io.Writer, args []string) (jobs, runtimes []*manifest.Document, err error) {
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Context, flags.Namespace = &c.kubeconfig, &c.context, &c.namespace
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the cluster: %w", err)
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the namespace: %w", err)
	}
	if c.all {
		namespace = ""
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	kinds, err := served(asked)
	if err != nil {
		return nil, nil, err
	}
	w := wanted{client: client, namespace: namespace, stderr: stderr}
	return w.read(ctx, kinds, args)
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
	stderr    io.Writer
}

func (w wanted) read(ctx context.Context, served []resource, args []string) (jobs, runtimes []*manifest.Document, err error) {
	if len(served) == 0 {
		return nil, nil, errors.New("the cluster serves no kind that can be migrated: no operator of another system is installed")
	}
	for _, r := range served {
		names, asked := named(r, args)
		isRuntime := trainer.IsRuntime(r.Kind)
		if len(args) > 0 && !asked && !isRuntime {
			continue
		}
		found, err := w.list(ctx, r, names)
		if err != nil {
			return nil, nil, err
		}
		if isRuntime {
			runtimes = append(runtimes, found...)
		} else {
			jobs = append(jobs, found...)
		}
	}
	for _, arg := range args {
		if !slices.ContainsFunc(served, func(r resource) bool { _, ok := named(r, []string{arg}); return ok }) {
			return nil, nil, fmt.Errorf("the cluster serves no %q that can be migrated", strings.Split(arg, "/")[0])
		}
	}
	return jobs, runtimes, nil
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

func (w wanted) list(ctx context.Context, r resource, names []string) ([]*manifest.Document, error) {
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
			fmt.Fprintf(w.stderr, "note: %s are left out: %v\n", r.Name, err)
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", r.Name, err)
		}
		items = all.Items
	}
	var docs []*manifest.Document
	for i := range items {
		o := &items[i]
		if owner := metav1.GetControllerOf(o); owner != nil {
			fmt.Fprintf(w.stderr, "note: %s %s/%s is left out: %s %s made it\n", o.GetKind(), o.GetNamespace(), o.GetName(), owner.Kind, owner.Name)
			continue
		}
		d, err := manifest.Of("the cluster", o)
		if err != nil {
			return nil, err
		}
		d.Number = i + 1
		docs = append(docs, d)
	}
	return docs, nil
}
