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

// startLimit is how long any one component may take to become ready: the slowest takes 2 to 5 s on two
// cores, and a machine that compiles at the same time is many times slower.
const startLimit = 2 * time.Minute

// startEtcd starts the store. Who reaches it owns the cluster, and on a real node that means root: so it is guarded by
// certificates of an authority of its own, even on the loopback address.
func (c *Cluster) startEtcd(ctx context.Context, ca *authority, client, peer int) error {
	endpoint := "https://" + net.JoinHostPort(loopback, strconv.Itoa(client))
	peerURL := "https://" + net.JoinHostPort(loopback, strconv.Itoa(peer))
	err := c.start(program{name: "etcd", path: c.bin.kubernetes, args: []string{
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
		// 100,000 pods, of which each is written five times between two compactions, do not fit in the 2 GiB by default.
		"--quota-backend-bytes=8589934592",
		// The data is worth nothing after the test: do not wait for the disk.
		"--unsafe-no-fsync",
	}})
	if err != nil {
		return err
	}
	probe, err := ca.client("etcd-client")
	if err != nil {
		return err
	}
	return c.await(ctx, "etcd", startLimit, func(ctx context.Context) error {
		return probeHealth(ctx, probe, endpoint+"/health")
	})
}

// client returns an HTTP client that shows the certificate of that name and trusts this authority.
func (a *authority) client(name string) (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(a.certFile(name), a.keyFile(name))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	pem, err := os.ReadFile(a.certFile(a.name))
	if err != nil {
		return nil, fmt.Errorf("reading the authority %s: %w", a.name, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading the authority %s: no certificate in it", a.name)
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}},
		Timeout:   5 * time.Second,
	}, nil
}

func probeHealth(ctx context.Context, client *http.Client, url string) error {
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
