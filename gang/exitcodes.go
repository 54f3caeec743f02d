package gang

import (
	"fmt"
	"strconv"
	"strings"
)

// ExitCodes is a set of exit codes. The zero value is empty.
type ExitCodes []exitRange

// exitRange are the codes from low to high, both among them.
type exitRange struct{ low, high int32 }

// maxExitCode is the largest code that a process of Linux can end with.
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

// ParseExitCodes reads numbers and ranges of them, separated by commas: "1-127,130".
// Code 0 is the good end, and cannot be named.
func ParseExitCodes(text string) (ExitCodes, error) {
	var out ExitCodes
	for item := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(item), "-")
		if !ranged {
			high = low
		}
		from, err1 := strconv.ParseInt(low, 10, 32)
		to, err2 := strconv.ParseInt(high, 10, 32)
		if err1 != nil || err2 != nil || from < 1 || to > maxExitCode || from > to {
			return nil, fmt.Errorf("must be exit codes from 1 to %d or ranges of them, separated by commas, such as 1-127 or 2,64-78", maxExitCode)
		}
		out = append(out, exitRange{int32(from), int32(to)})
	}
	return out, nil
}

// final reports whether a fall, which may be nil, ended the gang for good: by the exit code
// of a container that trains. What another ended with, an init container that could not
// fetch its data, says nothing about the next time. Neither does the code of a rank that
// lost another one, whose own end may not have been reported yet, or of one that may have
// been told to end.
func (l Lifecycle) final(f *Fall) bool {
	return f != nil && f.Container != "" && !f.Helper && !f.Peer && !f.Told && l.Final.Has(f.ExitCode)
}

// finalExitCodes reads the codes after which a gang does not start anew.
func (p *parser) finalExitCodes() ExitCodes {
	text, ok := p.meta.Annotations[AnnotationFinalCodes]
	if !ok {
		return nil
	}
	codes, err := ParseExitCodes(text)
	if err != nil {
		p.invalid(annotationsPath.Key(AnnotationFinalCodes), text, err.Error())
	}
	return codes
}
