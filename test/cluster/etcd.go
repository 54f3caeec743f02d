package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// startTimeout bounds the start of a component. The slowest component takes 2 to 5 s on two cores,
// and many times longer if the machine compiles at the same time.
const startTimeout = 2 * time.Minute

// startEtcd starts etcd. Access to etcd means control of the cluster, and root access with a real
// node. So it requires certificates of its own CA, even on the loopback address.
func (c *Cluster) startEtcd(ctx context.Context, ca *authority, client, peer int) error {
	endpoint := "https://" + net.JoinHostPort(loopback, strconv.Itoa(client))
	peerURL := "https://" + net.JoinHostPort(loopback, strconv.Itoa(peer))
	args := []string{
		"--name=test",
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + endpoint,
		"--advertise-client-urls=" + endpoint,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=test=" + peerURL,
		"--cert-file=" + ca.certFile("etcd-server"),
		"--key-file=" + ca.keyFile("etcd-server"),
		"--client-cert-auth",
		"--trusted-ca-file=" + ca.certFile(ca.name),
		"--peer-cert-file=" + ca.certFile("etcd-server"),
		"--peer-key-file=" + ca.keyFile("etcd-server"),
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + ca.certFile(ca.name),
		// 100,000 pods with five writes each between two compactions exceed the default of 2 GiB.
		"--quota-backend-bytes=8589934592",
		// The data is temporary, so etcd need not wait for the disk.
		"--unsafe-no-fsync",
	}
	path := c.binaries.controlPlaneProgram("etcd")
	if err := c.startProgram(program{Name: "etcd", Path: path, Args: append(args, c.options.EtcdFlags...)}); err != nil {
		return err
	}
	probe, err := ca.newHTTPClient("etcd-client")
	if err != nil {
		return err
	}
	return c.waitUntilReady(ctx, "etcd", startTimeout, func(ctx context.Context) error {
		return checkHealth(ctx, probe, endpoint+"/health")
	})
}

// newHTTPClient returns an HTTP client with the certificate of that name. It trusts this authority.
func (a *authority) newHTTPClient(name string) (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(a.certFile(name), a.keyFile(name))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	pem, err := os.ReadFile(a.certFile(a.name))
	if err != nil {
		return nil, fmt.Errorf("reading the CA %s: %w", a.name, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading the CA %s: there is no certificate in the file", a.name)
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}},
		Timeout:   5 * time.Second,
	}, nil
}

func checkHealth(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
