package release

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// newSigner returns a signer with a new key, and the files of both keys.
func newSigner(t *testing.T) (signer *Signer, private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "release.key"), filepath.Join(dir, "release.pub")
	writePEM(t, private, "PRIVATE KEY", der)
	writePEM(t, public, "PUBLIC KEY", publicDER)
	signer, err = ReadSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, private, public
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func parseBundle(t *testing.T, text []byte) bundle {
	t.Helper()
	var b bundle
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// isSignature reports whether the key of a signer signed the content.
func isSignature(s *Signer, content, signature []byte) bool {
	sum := sha256.Sum256(content)
	return ecdsa.VerifyASN1(s.key.Public().(*ecdsa.PublicKey), sum[:], signature)
}

func TestSignFile(t *testing.T) {
	signer, _, _ := newSigner(t)
	text, err := signer.SignFile([]byte("checksums"))
	if err != nil {
		t.Fatal(err)
	}
	signature := parseBundle(t, text).MessageSignature.Signature
	if !isSignature(signer, []byte("checksums"), signature) || isSignature(signer, []byte("Checksums"), signature) {
		t.Error("the signature does not belong to exactly the signed file")
	}
	again, err := signer.SignFile([]byte("checksums"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(again)); diff != "" {
		t.Errorf("two signatures of a file differ (-first +second):\n%s", diff)
	}
}

func TestReadSigner(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(dir, "a key on another curve"), "PRIVATE KEY", der)
	writePEM(t, filepath.Join(dir, "a key with a password"), "ENCRYPTED SIGSTORE PRIVATE KEY", der)
	for _, file := range []string{"a key on another curve", "a key with a password", "a missing file"} {
		if _, err := ReadSigner(filepath.Join(dir, file)); err == nil {
			t.Errorf("%s is read, want an error", file)
		}
	}
}

// TestSignedRelease also checks the files with cosign, if the machine has it.
func TestSignedRelease(t *testing.T) {
	signer, _, public := newSigner(t)
	source, dir := newSource(t, "v0.2.0"), filepath.Join(t.TempDir(), "dist")
	_, err := source.WriteRelease(t.Context(), Options{
		Repository: "registry.example.com/rollcall/manager", Signer: signer, Dir: dir, Progress: t.Output(),
		ImagePlatforms: []Platform{{OS: "linux", Arch: "amd64"}}, CommandPlatforms: []Platform{host},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(file string) []byte {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	checksums, signature := read("checksums.txt"), read("checksums.txt.sigstore.json")
	if !isSignature(signer, checksums, parseBundle(t, signature).MessageSignature.Signature) {
		t.Error("the signature of checksums.txt is wrong")
	}
	if !strings.Contains(string(checksums), hashSHA256(read("provenance.json"))+"  provenance.json\n") {
		t.Error("checksums.txt does not contain the provenance")
	}
	var p struct {
		Subject   []subject
		Predicate struct {
			BuildDefinition struct{ ResolvedDependencies []subject }
		}
	}
	if err := json.Unmarshal(read("provenance.json"), &p); err != nil {
		t.Fatal(err)
	}
	if got := p.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != source.Commit {
		t.Errorf("the provenance names the commit %s, want %s", got, source.Commit)
	}
	for _, subject := range p.Subject[1:] { // the first is the image
		if got := hashSHA256(read(subject.Name)); got != subject.Digest["sha256"] {
			t.Errorf("the provenance of %s has the digest %s, want %s", subject.Name, subject.Digest["sha256"], got)
		}
	}
	runCosign(t, "verify-blob", "--key", public, "--insecure-ignore-tlog", "--bundle",
		filepath.Join(dir, "checksums.txt.sigstore.json"), filepath.Join(dir, "checksums.txt"))
}

// TestPushSignatures also checks the image with cosign, if the machine has it.
func TestPushSignatures(t *testing.T) {
	signer, _, public := newSigner(t)
	source := newSource(t, "v0.2.0")
	images, err := source.BuildManagerImages(t.Context(), []Platform{{OS: "linux", Arch: "amd64"}}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	reference := startRegistry(t) + "/rollcall/manager:v0.2.0"
	if err := (Registry{Insecure: true, Signer: signer}).PushImages(t.Context(), reference, source, images); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := source.BuildIndex(images).Digest()
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(tag.Context().Digest(digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, descriptor := range list.Manifests {
		signed := pullStatement(t, signer, tag.Context().Digest(descriptor.Digest.String()))
		types = append(types, signed.PredicateType)
		if got := signed.Subject[0].Digest["sha256"]; got != digest.Hex {
			t.Errorf("the statement is about %s, want %s", got, digest.Hex)
		}
	}
	if diff := cmp.Diff([]string{imageSignatureType, provenanceType}, types, sorted); diff != "" {
		t.Errorf("signed statements (-want +got):\n%s", diff)
	}
	pushed := tag.Context().Digest(digest.String()).String()
	runCosign(t, "verify", "--key", public, "--insecure-ignore-tlog", "--allow-http-registry", pushed)
	runCosign(t, "verify-attestation", "--key", public, "--insecure-ignore-tlog", "--allow-http-registry",
		"--type", "slsaprovenance1", pushed)
}

// sorted compares lists of texts without their order.
var sorted = cmp.Transformer("sort", func(texts []string) map[string]int {
	counts := map[string]int{}
	for _, text := range texts {
		counts[text]++
	}
	return counts
})

// pullStatement reads a signed statement from a registry and verifies its signature.
func pullStatement(t *testing.T, signer *Signer, artifact name.Digest) statement {
	t.Helper()
	image, err := remote.Image(artifact)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var b bundle
	if err := json.NewDecoder(reader).Decode(&b); err != nil {
		t.Fatal(err)
	}
	if !isSignature(signer, encodeEnvelope(b.DSSEEnvelope.Payload), b.DSSEEnvelope.Signatures[0].Sig) {
		t.Error("the signature of the statement is wrong")
	}
	var s statement
	if err := json.Unmarshal(b.DSSEEnvelope.Payload, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// runCosign runs cosign, if it is installed. It takes minutes to build, so the tests do not require it.
func runCosign(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("cosign"); err != nil {
		t.Log("cosign is not installed, so only this test verifies the signature")
		return
	}
	if out, err := exec.CommandContext(t.Context(), "cosign", args...).CombinedOutput(); err != nil {
		t.Errorf("cosign %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
