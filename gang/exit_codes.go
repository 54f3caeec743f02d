package gang

import (
	"fmt"
	"strings"
)

// ExitCodes is a set of exit codes. The zero value is empty.
type ExitCodes []exitCodeRange

// exitCodeRange contains the codes from low to high, inclusive.
type exitCodeRange struct{ low, high int32 }

// maxExitCode is the maximum exit code of a process on Linux.
const maxExitCode = 255

// Has reports whether the code is in the set.
func (e ExitCodes) Has(code int32) bool {
	for _, r := range e {
		if code >= r.low && code <= r.high {
			return true
		}
	}
	return false
}

// ParseExitCodes parses numbers and ranges, separated by commas: "1-127,130". Code 0 means success
// and is invalid.
func ParseExitCodes(text string) (ExitCodes, error) {
	var codes ExitCodes
	for item := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			last = first
		}
		low, lowOK := parseIntInRange(first, 1, maxExitCode)
		high, highOK := parseIntInRange(last, 1, maxExitCode)
		if !lowOK || !highOK || low > high {
			return nil, fmt.Errorf(
				"must be exit codes from 1 to %d or ranges, separated by commas, such as 1-127 or 2,64-78", maxExitCode)
		}
		codes = append(codes, exitCodeRange{int32(low), int32(high)})
	}
	return codes, nil
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
