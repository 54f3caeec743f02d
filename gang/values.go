package gang

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parseIntInRange parses a decimal number from minimum to maximum.
func parseIntInRange(text string, minimum, maximum int64) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= minimum && n <= maximum
}

// parseInt parses an annotation as a whole number from minimum to maximum. It returns fallback if
// the annotation is absent or invalid. The error for an invalid value ends with the hint.
func (p *parser) parseInt(key string, minimum, maximum, fallback int64, hint string) int64 {
	text, ok := p.meta.Annotations[key]
	if !ok {
		return fallback
	}
	n, ok := parseIntInRange(text, minimum, maximum)
	if !ok {
		p.addInvalid(annotationsPath.Key(key), text,
			fmt.Sprintf("must be a whole number from %d to %d%s", minimum, maximum, hint))
		return fallback
	}
	return n
}

// parseBool parses "true" or "false". It adds an error for any other text, and then ok is false.
func (p *parser) parseBool(path *field.Path, text string) (value, ok bool) {
	if text != "true" && text != "false" {
		p.errs = append(p.errs, field.NotSupported(path, text, []string{"true", "false"}))
		return false, false
	}
	return text == "true", true
}
