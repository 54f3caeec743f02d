package release

import (
	"encoding/json"
	"fmt"
	"runtime"
)

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

// provenance is the predicate of SLSA: how the subjects were built.
type provenance struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	ResolvedDependencies []subject         `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

// writeProvenance returns a statement that the subjects were built from the commit of the source. The statement
// contains no time and no name of a machine, so that two builds of a commit are equal.
func (s Source) writeProvenance(subjects ...subject) ([]byte, error) {
	p := provenance{BuildDefinition: buildDefinition{
		BuildType:          "https://rollcall.training/release/v1",
		ExternalParameters: map[string]string{"version": s.Version},
		ResolvedDependencies: []subject{
			{URI: "git+https://rollcall.training@" + s.Commit, Digest: map[string]string{"gitCommit": s.Commit}},
			{URI: "pkg:generic/go@" + runtime.Version()},
		},
	}}
	p.RunDetails.Builder.ID = "https://rollcall.training/release/cmd/release"
	return writeStatement(provenanceType, p, subjects...)
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
