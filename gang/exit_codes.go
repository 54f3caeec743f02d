package gang

import (
	"fmt"

	"rollcall.training/internal/ranges"
)

// ExitCodes is a set of exit codes. The zero value is empty.
type ExitCodes ranges.Set

// maxExitCode is the maximum exit code of a process on Linux.
const maxExitCode = 255

// Has reports whether the code is in the set.
func (e ExitCodes) Has(code int32) bool { return ranges.Set(e).Contains(code) }

// ParseExitCodes parses numbers and ranges, separated by commas: "1-127,130". Code 0 means success
// and is invalid.
func ParseExitCodes(text string) (ExitCodes, error) {
	codes, invalid := ranges.Parse(text, 1, maxExitCode)
	if invalid != "" {
		return nil, fmt.Errorf(
			"must be exit codes from 1 to %d or ranges, separated by commas, such as 1-127 or 2,64-78", maxExitCode)
	}
	return ExitCodes(codes), nil
}

// parseNonRetriableExitCodes parses [AnnotationNonRetriableExitCodes].
func (p *parser) parseNonRetriableExitCodes() ExitCodes {
	text, ok := p.meta.Annotations[AnnotationNonRetriableExitCodes]
	if !ok {
		return nil
	}
	codes, err := ParseExitCodes(text)
	if err != nil {
		p.addInvalid(annotationsPath.Key(AnnotationNonRetriableExitCodes), text, err.Error())
	}
	return codes
}
