package check

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/policy"
	"rollcall.training/internal/policy/configmap"
)

// ReadPolicyInForce returns the last valid policy of the only release, up to its ceiling, and the name of the ConfigMap
// with the namespace. The managers judge by it.
func (r Reader) ReadPolicyInForce(ctx context.Context) (*policy.Policy, string, error) {
	deployments := r.listDeployments(ctx)
	if deployments.Err != nil {
		return nil, "", fmt.Errorf("listing the Deployments of Rollcall: %w", deployments.Err)
	}
	releases := listReleases(deployments.Value)
	switch {
	case len(releases) == 0:
		return nil, "", errors.New("the cluster has no Deployment of Rollcall")
	case len(releases) > 1:
		return nil, "", fmt.Errorf("the cluster has %d releases of Rollcall; set --release-namespace", len(releases))
	}
	i := Installation{Release: releases[0]}
	i.Controller = i.findComponent(controllerComponent, deployments)
	name, reader := r.newPolicyReader(i.Controller)
	if name == "" {
		return nil, "", fmt.Errorf("the release %s has no policy", i.Release)
	}
	p, name, err := r.readLastPolicy(ctx, reader, i.Namespace, name)
	if err != nil {
		return nil, "", err
	}
	if ceiling, ok := i.Controller.Flag("policy-ceiling"); ok {
		p = p.WithCeiling(policy.Mode(ceiling))
	}
	return p, i.Namespace + "/" + name, nil
}

// newPolicyReader returns the name of the ConfigMap with the policy of a controller, which is empty without a policy,
// and the reader of its file.
func (r Reader) newPolicyReader(controller Component) (string, configmap.FileReader) {
	name, _ := controller.Flag("policy-configmap")
	_, readsNamespaces := controller.Flag("policy-read-namespaces")
	return name, configmap.FileReader{Frameworks: r.Frameworks, ReadsNamespaces: readsNamespaces}
}

// readLastPolicy returns the policy that the leader accepted last, and the name of its ConfigMap. Before the leader
// accepts the first policy, it is the one that the administrator wrote.
func (r Reader) readLastPolicy(
	ctx context.Context, reader configmap.FileReader, namespace, written string,
) (*policy.Policy, string, error) {
	name := configmap.AcceptedName(written)
	m, err := r.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && m.Data[configmap.FileKey] == "" {
		name = written
		m, err = r.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the ConfigMap %s/%s: %w", namespace, name, err)
	}
	p, _, err := reader.ReadConfigMap(name, m)
	if err != nil {
		return nil, "", fmt.Errorf("the policy in %s/%s is not valid: %w", namespace, name, err)
	}
	return p, name, nil
}
