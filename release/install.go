package release

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed install.sh.tmpl
var installScript string

//go:embed formula.rb.tmpl
var formula string

// writeInstallScript returns a script that installs the command line from the folder with the URL.
func (s Source) writeInstallScript(downloadURL string) ([]byte, error) {
	return render("install.sh", installScript, map[string]any{
		"Version": s.Version, "DownloadURL": downloadURL, "Name": Command.Name,
	})
}

// formulaArchive is an archive in the formula for Homebrew.
type formulaArchive struct{ CPU, URL, SHA256 string }

// formulaSystem is an operating system in the formula, with its archives.
type formulaSystem struct {
	Name     string
	Archives []formulaArchive
}

// writeFormula returns the formula for Homebrew with the archives for macOS and Linux.
func (s Source) writeFormula(archives []commandArchive, downloadURL string) ([]byte, error) {
	cpus := map[string]string{"arm64": "arm", "amd64": "intel"}
	var systems []formulaSystem
	for _, system := range []struct{ name, os string }{{"macos", "darwin"}, {"linux", "linux"}} {
		out := formulaSystem{Name: system.name}
		for _, a := range archives {
			if cpu := cpus[a.platform.Arch]; a.platform.OS == system.os && cpu != "" {
				out.Archives = append(out.Archives, formulaArchive{
					CPU: cpu, URL: downloadURL + "/" + a.fileName, SHA256: hashSHA256(a.content),
				})
			}
		}
		if len(out.Archives) > 0 {
			systems = append(systems, out)
		}
	}
	return render("rollcall.rb", formula, map[string]any{
		"Number": strings.TrimPrefix(s.Version, "v"), "Systems": systems,
		"Description": shortDescription,
	})
}

func render(name, text string, values map[string]any) ([]byte, error) {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading the template of %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return out.Bytes(), nil
}
