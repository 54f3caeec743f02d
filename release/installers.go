package release

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

//go:embed install.sh.tmpl rollcall.rb.tmpl rollcall.yaml.tmpl
var installerTexts embed.FS

// installers are the templates of the files that install the command line. A file has the name of its template.
var installers = template.Must(template.ParseFS(installerTexts, "*.tmpl"))

// installedArchive is an archive as the templates read it.
type installedArchive struct {
	Platform
	URL, SHA256, Extension string
	// System and CPU identify the platform for Homebrew; empty for a platform without Homebrew.
	System, CPU string
}

// writeInstallers returns the files that install the command line from the folder with the URL: the manifest for krew,
// the formula for Homebrew, and the script. Without a URL, there are none.
func (s Source) writeInstallers(archives []commandArchive, downloadURL string) ([]File, error) {
	if downloadURL == "" {
		return nil, nil
	}
	platforms := map[Platform][2]string{
		{"darwin", "arm64"}: {"macos", "arm"}, {"darwin", "amd64"}: {"macos", "intel"},
		{"linux", "arm64"}: {"linux", "arm"}, {"linux", "amd64"}: {"linux", "intel"},
	}
	var list []installedArchive
	var systems []string
	for _, a := range archives {
		homebrew := platforms[a.platform]
		list = append(list, installedArchive{
			Platform: a.platform, URL: downloadURL + "/" + a.fileName, SHA256: hashSHA256(a.content),
			Extension: executableExtension(a.platform), System: homebrew[0], CPU: homebrew[1],
		})
		if homebrew[0] != "" && !slices.Contains(systems, homebrew[0]) {
			systems = append(systems, homebrew[0])
		}
	}
	var files []File
	for _, name := range []string{"rollcall.yaml", "rollcall.rb", "install.sh"} {
		var text bytes.Buffer
		err := installers.ExecuteTemplate(&text, name+".tmpl", map[string]any{
			"Version": s.Version, "Number": strings.TrimPrefix(s.Version, "v"), "Name": Command.Name,
			"Description": "Check, migrate and inspect training gangs",
			"DownloadURL": downloadURL, "Archives": list, "Systems": systems,
		})
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
		files = append(files, File{Name: name, Content: text.Bytes()})
	}
	return files, nil
}
