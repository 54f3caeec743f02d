package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"rollcall.training/gang"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/policy/configmap"
)

// policyOptions are the values of the flags for the policy of the cluster.
type policyOptions struct {
	configMap       string // empty for no policy
	ceiling         string
	readsNamespaces bool
}

// addFlags adds the flags for the policy to f.
func (o *policyOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.configMap, "policy-configmap", "",
		"name of the ConfigMap with the policy for gangs, in the namespace of the process (default: no policy)")
	f.StringVar(&o.ceiling, "policy-ceiling", string(policy.ModeEnforce),
		"strictest mode of the policy: enforce, warn, audit or off")
	f.BoolVar(&o.readsNamespaces, "policy-read-namespaces", false,
		"permission for the policy to select namespaces by their labels")
}

// validateFlags returns an error that joins a message for each invalid flag.
func (o *policyOptions) validateFlags() error {
	var errs []error
	if o.configMap != "" {
		for _, message := range validation.IsDNS1123Subdomain(o.configMap) {
			errs = append(errs, fmt.Errorf("--policy-configmap: invalid value %q: %s", o.configMap, message))
		}
	}
	if !slices.Contains(policy.Modes(), policy.Mode(o.ceiling)) {
		errs = append(errs, fmt.Errorf("--policy-ceiling: invalid value %q: must be enforce, warn, audit or off", o.ceiling))
	}
	return errors.Join(errs...)
}

// newFileReader returns what reads the policy file.
func (o *policyOptions) newFileReader(frameworks gang.Frameworks) configmap.FileReader {
	return configmap.FileReader{Frameworks: frameworks, ReadsNamespaces: o.readsNamespaces}
}

// addPolicySource adds the source of the policy to a manager. It returns nil if there is no policy.
func (o *policyOptions) addPolicySource(
	mgr manager.Manager, namespace string, frameworks gang.Frameworks,
) (*configmap.Source, error) {
	if o.configMap == "" {
		return nil, nil
	}
	kube, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	source := configmap.New(configmap.Options{
		Client:    kube,
		Namespace: namespace,
		Name:      o.configMap,
		Reader:    o.newFileReader(frameworks),
		Ceiling:   policy.Mode(o.ceiling),
		Clock:     clock.RealClock{},
		DescribeNamespace: func(ctx context.Context, name string) (policy.Namespace, error) {
			if !o.readsNamespaces {
				return policy.Namespace{Name: name}, nil
			}
			return readNamespace(ctx, mgr.GetClient(), mgr.GetAPIReader(), name)
		},
	})
	if err := mgr.Add(source); err != nil {
		return nil, fmt.Errorf("adding the policy: %w", err)
	}
	if !o.readsNamespaces {
		return source, nil
	}
	// Otherwise the first admission would wait for the watch.
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		_, err := mgr.GetCache().GetInformer(ctx, newNamespaceMetadata(), cache.BlockUntilSynced(false))
		return err
	}))
	if err != nil {
		return nil, fmt.Errorf("adding the watch of namespaces: %w", err)
	}
	return source, nil
}

// newNamespaceMetadata returns an empty namespace, of which the cache keeps only the metadata.
func newNamespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// readNamespace returns the labels of a namespace from the cache. The cache can miss a namespace that was
// created a moment ago, so the API server is asked once.
func readNamespace(ctx context.Context, cached, live client.Reader, name string) (policy.Namespace, error) {
	namespace := newNamespaceMetadata()
	err := cached.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		err = live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	}
	if err != nil {
		return policy.Namespace{}, fmt.Errorf("reading the namespace %s: %w", name, err)
	}
	return policy.Namespace{Name: name, Labels: namespace.Labels}, nil
}
