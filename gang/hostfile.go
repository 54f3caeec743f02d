package gang

import (
	"fmt"
	"path"
	"strings"
)

// parseHostfile parses the path of the file with the addresses of all ranks. A path is a mount point
// of a container, which must not contain a colon (kubernetes pkg/apis/core/validation,
// ValidateVolumeMounts).
func (p *parser) parseHostfile(f Framework) string {
	text, ok := p.meta.Annotations[AnnotationHostfile]
	if !ok || f.Name == "" {
		return ""
	}
	key := annotationsPath.Key(AnnotationHostfile)
	if !f.HasHostfile {
		p.addWarning(key, fmt.Sprintf("has no effect on a gang of %s", f.Name))
		return ""
	}
	isFile := path.IsAbs(text) && path.Clean(text) == text && text != "/" && !strings.Contains(text, ":")
	if !isFile {
		p.addInvalid(key, text, "must be the absolute path of a file without \":\", such as /etc/hostfile")
		return ""
	}
	return text
}
