package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// certificateValidity is longer than the lifetime of any cluster.
	certificateValidity = 365 * 24 * time.Hour
	// clockSkewAllowance backdates certificates in case the clock is set back.
	clockSkewAllowance = time.Hour
)

// authority is a CA that signs the certificates of a cluster. Its own certificate is <name>.crt in
// its directory.
type authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  crypto.Signer
}

// identity is the subject of a certificate. With hosts, the certificate is also valid for a server.
type identity struct {
	// name is the base name of the files <name>.crt and <name>.key.
	name string
	user string
	// groups are the organizations of the certificate, which Kubernetes uses as groups.
	groups []string
	hosts  []string
}

func newAuthority(dir, name string) (*authority, error) {
	template, err := newCertificateTemplate("rollcall-test-" + name)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	a := &authority{dir: dir, name: name, cert: template}
	if a.key, err = createKey(dir, name); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of the CA %s: %w", name, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("reading the certificate of the CA %s: %w", name, err)
	}
	return a, writePEM(a.certFile(name), "CERTIFICATE", der)
}

// loadAuthority returns a CA whose files exist.
func loadAuthority(dir, name string) (*authority, error) {
	a := &authority{dir: dir, name: name}
	pair, err := tls.LoadX509KeyPair(a.certFile(name), a.keyFile(name))
	if err != nil {
		return nil, fmt.Errorf("loading the CA %s: %w", name, err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("loading the CA %s: its key cannot sign", name)
	}
	a.cert, a.key = pair.Leaf, signer
	return a, nil
}

func (a *authority) certFile(name string) string { return filepath.Join(a.dir, name+".crt") }
func (a *authority) keyFile(name string) string  { return filepath.Join(a.dir, name+".key") }

// issueCertificate writes a key and a certificate for the identity.
func (a *authority) issueCertificate(id identity) error {
	template, err := newCertificateTemplate(id.user)
	if err != nil {
		return err
	}
	template.Subject.Organization = id.groups
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(id.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := createKey(a.dir, id.name)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("signing the certificate of %s: %w", id.name, err)
	}
	return writePEM(a.certFile(id.name), "CERTIFICATE", der)
}

func newCertificateTemplate(commonName string) (*x509.Certificate, error) {
	// 127 random bits are unique in practice, and positive as RFC 5280 requires.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-clockSkewAllowance),
		NotAfter:     now.Add(certificateValidity),
	}, nil
}

// createKey creates a key and writes it to <name>.key.
func createKey(dir, name string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key %s: %w", name, err)
	}
	// The API server also reads public keys from this format (SEC 1), but not from PKCS #8.
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key %s: %w", name, err)
	}
	return key, writePEM(filepath.Join(dir, name+".key"), "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", kind, err)
	}
	return nil
}
