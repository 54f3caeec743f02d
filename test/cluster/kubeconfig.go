package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the name of the cluster, the user and the context in all kubeconfigs.
const contextName = "rollcall-test"

// writeKubeconfig writes a kubeconfig for a user with an existing certificate. The file contains
// the key, so it can be copied and must be protected.
func (a *authority) writeKubeconfig(path, server, user string) error {
	config := clientcmdapi.NewConfig()
	var data [3][]byte
	for i, file := range []string{a.certFile(a.name), a.certFile(user), a.keyFile(user)} {
		var err error
		if data[i], err = os.ReadFile(file); err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
		}
	}
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: data[0]}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{ClientCertificateData: data[1], ClientKeyData: data[2]}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return nil
}

func (c *Cluster) kubeconfigFile(user string) string {
	return filepath.Join(c.pkiDir(), user+".kubeconfig")
}

func (c *Cluster) pkiDir() string { return filepath.Join(c.dir, "pki") }
