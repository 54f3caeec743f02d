//go:build linux

package agent

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// privateKeyFile is the file with the private key of the gang, in the mounted Secret.
const privateKeyFile = "ssh-privatekey"

// errForeignKey means that the peer does not have the key of the gang.
var errForeignKey = errors.New("the peer does not have the key of this gang")

// identity is the certificate of a gang's pods.
type identity struct {
	certificate tls.Certificate
	key         *ecdsa.PublicKey
}

// loadIdentity reads the private key of the gang in a directory, and signs a certificate with it. The
// certificate contains nothing but the public key: peers compare only the key.
func loadIdentity(dir string) (*identity, error) {
	path := filepath.Join(dir, privateKeyFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the gang: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "EC PRIVATE KEY" {
		return nil, fmt.Errorf("reading %s: it is not a key that Rollcall created; delete the Secret, "+
			"and Rollcall creates another one", path)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		// Peers do not check the time, because the clocks of nodes differ.
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate: %w", err)
	}
	return &identity{
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		key:         &key.PublicKey,
	}, nil
}

// newTLSConfig returns the configuration of both sides.
func (i *identity) newTLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{i.certificate},
		ClientAuth:   tls.RequireAnyClientCert,
		// The names in certificates have no meaning. verifyPeer replaces the verification.
		InsecureSkipVerify:     true,
		VerifyConnection:       i.verifyPeer,
		SessionTicketsDisabled: true,
	}
}

// verifyPeer accepts only a peer with the key of the gang. The handshake proves that the peer has the
// private key.
func (i *identity) verifyPeer(state tls.ConnectionState) error {
	if len(state.PeerCertificates) != 1 {
		return errForeignKey
	}
	key, ok := state.PeerCertificates[0].PublicKey.(*ecdsa.PublicKey)
	if !ok || !key.Equal(i.key) {
		return errForeignKey
	}
	return nil
}
