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

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/migrate/trainer"
)

// clusterSourceName is the source of live objects in reports.
const clusterSourceName = "cluster"

// readJobs reads the training jobs of the cluster. The arguments are KIND or KIND/NAME; without
// arguments it reads all jobs. It skips jobs that another object created, such as the JobSet of a
// TrainJob, unless an argument names them. It always reads all runtimes, because jobs refer to them.
func (c *clusterFlags) readJobs(ctx context.Context, args []string) (migrateInput, error) {
	config, namespace, err := c.loadConfig()
	if err != nil {
		return migrateInput{}, err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return migrateInput{}, fmt.Errorf("creating a discovery client of the cluster: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return migrateInput{}, fmt.Errorf("creating a client of the cluster: %w", err)
	}
	kinds, err := listServedKinds(discoveryClient)
	if err != nil {
		return migrateInput{}, err
	}
	reader := clusterReader{client: client, namespace: namespace}
	err = reader.readKinds(ctx, kinds, args)
	return reader.result, err
}

// listServedKinds returns the kinds that the cluster serves and that can be migrated, each in its
// preferred version. It ignores errors of API groups if any group could be read: an aggregated API
// that is unavailable must not prevent a migration.
func listServedKinds(client discovery.DiscoveryInterface) ([]metav1.APIResource, error) {
	lists, err := discovery.ServerPreferredResources(client)
	if err != nil && len(lists) == 0 {
		return nil, fmt.Errorf("listing the kinds of the cluster: %w", err)
	}
	var kinds []metav1.APIResource
	for _, list := range lists {
		groupVersion, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || source.JobKinds(groupVersion.Group) == nil {
			continue
		}
		for _, resource := range list.APIResources {
			isSubresource := strings.Contains(resource.Name, "/")
			if slices.Contains(resource.Verbs, "list") && !isSubresource {
				resource.Group, resource.Version = groupVersion.Group, groupVersion.Version // empty in the list
				kinds = append(kinds, resource)
			}
		}
	}
	return kinds, nil
}

// clusterReader reads objects of one namespace, or of all namespaces if the namespace is empty, and
// adds them to the result.
type clusterReader struct {
	client    dynamic.Interface
	namespace string
	result    migrateInput
}

// readKinds reads the objects of the served kinds that the arguments name.
func (r *clusterReader) readKinds(ctx context.Context, served []metav1.APIResource, args []string) error {
	if len(served) == 0 {
		return errors.New("the cluster serves no kind that can be migrated: no operator of another system is installed")
	}
	for _, kind := range served {
		names, requested := matchArguments(kind, args)
		isRuntime := trainer.IsRuntimeKind(kind.Kind)
		if len(args) > 0 && !requested && !isRuntime {
			continue
		}
		docs, err := r.listObjects(ctx, kind, names)
		if err != nil {
			return err
		}
		if isRuntime {
			r.result.runtimes = append(r.result.runtimes, docs...)
		} else {
			r.result.docs = append(r.result.docs, docs...)
		}
	}
	for _, arg := range args {
		isServed := slices.ContainsFunc(served, func(kind metav1.APIResource) bool {
			_, ok := matchArguments(kind, []string{arg})
			return ok
		})
		if !isServed {
			return fmt.Errorf("the cluster serves no kind %q that can be migrated", strings.Split(arg, "/")[0])
		}
	}
	return nil
}

// skipObject reports an object or a kind that is not migrated.
func (r *clusterReader) skipObject(object, path, reason, action string) {
	r.result.skipped = append(r.result.skipped, migrate.Report{
		Source: clusterSourceName,
		Object: object,
		Entries: []source.Entry{
			{Path: path, Outcome: source.Changed, Reason: "skipped: " + reason, Action: action},
		},
	})
}

// matchArguments returns the names that the arguments contain for a kind, and whether any argument
// contains the kind. An argument can contain the kind in all forms that kubectl accepts. No names
// means all objects of the kind.
func matchArguments(served metav1.APIResource, args []string) (names []string, requested bool) {
	for _, arg := range args {
		kind, name, hasName := cutObjectName(arg)
		forms := append([]string{served.Name, served.SingularName, strings.ToLower(served.Kind)}, served.ShortNames...)
		if !slices.Contains(forms, kind) {
			continue
		}
		requested = true
		if hasName {
			names = append(names, name)
		}
	}
	return names, requested
}

// listObjects returns the objects of a kind with the given names, or all objects without names. It
// skips a kind that the user may not list.
func (r *clusterReader) listObjects(
	ctx context.Context, kind metav1.APIResource, names []string,
) ([]*manifest.Document, error) {
	resources := r.client.Resource(schema.GroupVersionResource{
		Group: kind.Group, Version: kind.Version, Resource: kind.Name,
	})
	var client dynamic.ResourceInterface = resources
	if kind.Namespaced {
		client = resources.Namespace(r.namespace)
	}
	var objects []unstructured.Unstructured
	for _, name := range names {
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading %s/%s: %w", kind.Name, name, err)
		}
		objects = append(objects, *object)
	}
	if len(names) == 0 {
		list, err := client.List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsForbidden(err) || meta.IsNoMatchError(err):
			r.skipObject(kind.Kind, "metadata", err.Error(), "request permission to list "+kind.Name)
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", kind.Name, err)
		}
		objects = list.Items
	}
	var docs []*manifest.Document
	for i := range objects {
		if owner := metav1.GetControllerOf(&objects[i]); owner != nil && len(names) == 0 {
			r.skipObject(fmt.Sprintf("%s %s/%s", kind.Kind, objects[i].GetNamespace(), objects[i].GetName()),
				"metadata.ownerReferences", fmt.Sprintf("%s %s created it and would recreate it", owner.Kind, owner.Name),
				fmt.Sprintf("migrate %s %s, or pass the name of this object", owner.Kind, owner.Name))
			continue
		}
		d, err := manifest.NewDocument(clusterSourceName, &objects[i])
		if err != nil {
			return nil, err
		}
		d.Number = i + 1
		docs = append(docs, d)
	}
	return docs, nil
}
