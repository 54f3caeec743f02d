package release

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// WriteSBOM returns a bill of materials in SPDX 2.3: the program, the Go standard library, and every
// module that is linked into the program.
func (s Source) WriteSBOM(program Program, platform Platform, modules []Module) ([]byte, error) {
	name := fmt.Sprintf("%s_%s_%s_%s", program.Name, strings.TrimPrefix(s.Version, "v"), platform.OS, platform.Arch)
	root := newSPDXPackage(Module{
		Path: "rollcall.training/" + program.Name, Version: s.Version, Licenses: []string{"Apache-2.0"},
	})
	document := &v2_3.Document{
		SPDXVersion:       v2_3.Version,
		DataLicense:       v2_3.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      name,
		DocumentNamespace: "https://rollcall.training/spdx/" + name + "-" + s.Commit,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "rollcall-release"}},
			Created:  s.Time.Format(time.RFC3339),
		},
		Packages: []*v2_3.Package{root},
		Relationships: []*v2_3.Relationship{
			newRelationship("DOCUMENT", common.TypeRelationshipDescribe, root.PackageSPDXIdentifier),
		},
	}
	stdlib := Module{
		Path: "stdlib", Version: strings.TrimPrefix(runtime.Version(), "go"), Licenses: []string{"BSD-3-Clause"},
	}
	for _, module := range append([]Module{stdlib}, modules...) {
		dependency := newSPDXPackage(module)
		document.Packages = append(document.Packages, dependency)
		document.Relationships = append(document.Relationships,
			newRelationship(root.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, dependency.PackageSPDXIdentifier))
	}
	var out bytes.Buffer
	if err := spdxjson.Write(document, &out, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("writing the bill of materials of %s: %w", program.Name, err)
	}
	return out.Bytes(), nil
}

func newSPDXPackage(m Module) *v2_3.Package {
	license := strings.Join(m.Licenses, " AND ")
	return &v2_3.Package{
		PackageName:             m.Path,
		PackageSPDXIdentifier:   common.ElementID("Package-" + spdxIDReplacer.Replace(m.Path)),
		PackageVersion:          m.Version,
		PackageDownloadLocation: spdxNoAssertion,
		PackageLicenseConcluded: license,
		PackageLicenseDeclared:  license,
		PackageCopyrightText:    spdxNoAssertion,
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager,
			RefType:  common.TypePackageManagerPURL,
			Locator:  "pkg:golang/" + m.Path + "@" + m.Version,
		}},
	}
}

const spdxNoAssertion = "NOASSERTION"

// spdxIDReplacer replaces what module paths contain and SPDX identifiers cannot.
var spdxIDReplacer = strings.NewReplacer("/", "-", "_", "-", "~", "-")

func newRelationship(from common.ElementID, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA:         common.MakeDocElementID("", string(from)),
		RefB:         common.MakeDocElementID("", string(to)),
		Relationship: kind,
	}
}
