package release

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// bundleMediaType is the type of a signature with what its verification needs, which cosign verifies
// (github.com/sigstore/protobuf-specs, sigstore_bundle.proto).
const bundleMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// statementType is the type of an in-toto statement in a signed envelope.
const statementType = "application/vnd.in-toto+json"

// Signer signs files and statements with an ECDSA key, without a network. Its signatures are deterministic (RFC
// 6979), so that two builds of a commit with the same key are equal.
type Signer struct {
	key  crypto.Signer
	hint string
}

// ReadSigner reads a private key on the curve P-256 from a PEM file in PKCS #8, which openssl genpkey writes.
func ReadSigner(path string) (*Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the signing key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("reading the signing key: it must be a PEM block PRIVATE KEY without a password")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the signing key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("reading the signing key: it must be an ECDSA key on the curve P-256")
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("reading the signing key: %w", err)
	}
	sum := sha256.Sum256(public)
	return &Signer{key: key, hint: base64.StdEncoding.EncodeToString(sum[:])}, nil
}

// bundle is a Sigstore bundle without a transparency log. Either the signature or the envelope is set.
type bundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	MessageSignature *messageSignature `json:"messageSignature,omitempty"`
	DSSEEnvelope     *envelope         `json:"dsseEnvelope,omitempty"`
}

type messageSignature struct {
	MessageDigest struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

// envelope is a signed statement in the format DSSE.
type envelope struct {
	Payload     []byte              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Sig []byte `json:"sig"`
}

// SignFile returns the bundle of a signature of a file.
func (s *Signer) SignFile(content []byte) ([]byte, error) {
	digest, signature, err := s.sign(content)
	if err != nil {
		return nil, err
	}
	m := &messageSignature{Signature: signature}
	m.MessageDigest.Algorithm, m.MessageDigest.Digest = "SHA2_256", digest
	return s.writeBundle(bundle{MessageSignature: m})
}

// SignStatement returns the bundle of a signed in-toto statement.
func (s *Signer) SignStatement(statement []byte) ([]byte, error) {
	_, signature, err := s.sign(encodeEnvelope(statement))
	if err != nil {
		return nil, err
	}
	return s.writeBundle(bundle{DSSEEnvelope: &envelope{
		Payload: statement, PayloadType: statementType, Signatures: []envelopeSignature{{Sig: signature}},
	}})
}

// encodeEnvelope returns what the signature of an envelope signs (github.com/secure-systems-lab/dsse, protocol.md).
func encodeEnvelope(statement []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementType), statementType, len(statement), statement)
}

func (s *Signer) sign(content []byte) (digest, signature []byte, err error) {
	sum := sha256.Sum256(content)
	signature, err = s.key.Sign(nil, sum[:], crypto.SHA256) // without random bytes, the signature is deterministic
	if err != nil {
		return nil, nil, fmt.Errorf("signing: %w", err)
	}
	return sum[:], signature, nil
}

func (s *Signer) writeBundle(b bundle) ([]byte, error) {
	b.MediaType = bundleMediaType
	b.VerificationMaterial.PublicKey.Hint = s.hint
	text, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("writing the signature: %w", err)
	}
	return text, nil
}

// The types of in-toto statements. Sources: slsa.dev/spec/v1.1/provenance, and cosign, which verifies a signed image by
// a statement of the second type.
const (
	provenanceType     = "https://slsa.dev/provenance/v1"
	imageSignatureType = "https://sigstore.dev/cosign/sign/v1"
)

// statement is an in-toto statement about files or images.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     any       `json:"predicate"`
}

// subject is what a statement is about. A digest has the name of its algorithm as its key.
type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

func newSubject(name, sha256 string) subject {
	return subject{Name: name, Digest: map[string]string{"sha256": sha256}}
}

// writeProvenance returns a statement of SLSA that the subjects were built from the commit of the source. The statement
// contains no time and no name of a machine, so that two builds of a commit are equal.
func (s Source) writeProvenance(subjects ...subject) ([]byte, error) {
	return writeStatement(provenanceType, map[string]any{
		"buildDefinition": map[string]any{
			"buildType":          "https://rollcall.training/release/v1",
			"externalParameters": map[string]string{"version": s.Version},
			"resolvedDependencies": []subject{
				{URI: "git+https://rollcall.training@" + s.Commit, Digest: map[string]string{"gitCommit": s.Commit}},
				{URI: "pkg:generic/go@" + runtime.Version()},
			},
		},
		"runDetails": map[string]any{"builder": map[string]string{"id": "https://rollcall.training/release/cmd/release"}},
	}, subjects...)
}

func writeStatement(predicateType string, predicate any, subjects ...subject) ([]byte, error) {
	text, err := json.Marshal(statement{
		Type: "https://in-toto.io/Statement/v1", Subject: subjects, PredicateType: predicateType, Predicate: predicate,
	})
	if err != nil {
		return nil, fmt.Errorf("writing a statement: %w", err)
	}
	return text, nil
}
