package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/roster/cluster"
)

// policyInput are the flags for the workloads that a policy judges: files, or a cluster.
type policyInput struct {
	files       []string
	fromCluster bool
	cluster     clusterFlags
}

func (i *policyInput) addFlags(cmd *cobra.Command) {
	addFilenameFlag(cmd, &i.files, "filename", "f", filenameUsage)
	cmd.Flags().BoolVar(&i.fromCluster, "cluster", false, "the workloads of a cluster")
	i.cluster.addFlags(cmd)
	i.cluster.addAllNamespacesFlag(cmd.Flags(), "with --cluster, workloads")
}

// read returns the documents of the files or of the cluster. The error has the exit code.
func (i *policyInput) read(ctx context.Context, stdin io.Reader) ([]*manifest.Document, error) {
	if i.fromCluster == (len(i.files) > 0) {
		return nil, newUsageError(errors.New(
			"--filename or --cluster: one of them is required; use -f - for standard input"))
	}
	if !i.fromCluster {
		docs, err := readValidManifests(i.files, stdin)
		return docs, newUsageError(err)
	}
	client, namespace, err := i.cluster.connect()
	if err != nil {
		return nil, newUsageError(err)
	}
	docs, err := readCluster(ctx, client, namespace)
	return docs, newUsageError(err)
}

// readCluster returns the labeled workloads of a namespace, or of all namespaces if it is empty, and the
// namespaces. Without the permission to read namespaces, no profile that selects labels matches.
func readCluster(ctx context.Context, client kubernetes.Interface, namespace string) ([]*manifest.Document, error) {
	workloads, err := cluster.ListWorkloads(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	var docs []*manifest.Document
	namespaces, err := listNamespaces(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	for j := range namespaces {
		n := &namespaces[j]
		d, err := newClusterDocument(corev1.SchemeGroupVersion.WithKind("Namespace"), n, n)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	for _, w := range workloads {
		d, err := newClusterDocument(w.GroupKind().WithVersion("v1"), w.Object(), w.Meta())
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// newClusterDocument returns a document with an object of a cluster. It sets the kind, which clients omit.
func newClusterDocument(
	kind schema.GroupVersionKind, o runtime.Object, meta metav1.Object,
) (*manifest.Document, error) {
	o.GetObjectKind().SetGroupVersionKind(kind)
	meta.SetManagedFields(nil)
	return manifest.NewDocument("cluster", o)
}

// listNamespaces returns one namespace, or all namespaces if the name is empty. It returns nil if the user may
// not read them.
func listNamespaces(ctx context.Context, client kubernetes.Interface, name string) ([]corev1.Namespace, error) {
	if name == "" {
		list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing namespaces: %w", err)
		}
		return list.Items, nil
	}
	namespace, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return []corev1.Namespace{*namespace}, nil
}

// readValidManifests is [readManifests] for commands that need all documents.
func readValidManifests(names []string, stdin io.Reader) ([]*manifest.Document, error) {
	docs, unreadable, err := readManifests(names, stdin)
	if err == nil && len(unreadable) > 0 {
		err = unreadable[0]
	}
	return docs, err
}
