package progress

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

const (
	// MaxPatternLength is the maximum length of a pattern in bytes.
	MaxPatternLength = 256
	// maxInstructions limits the program of a pattern, whose repetitions are expanded: \d{1000} has a thousand
	// instructions.
	maxInstructions = 500
	// maxUnicodeClasses limits the classes such as \pL, which has more than 600 ranges. The parser takes 8 ms for
	// a pattern of the maximum length that contains only such classes.
	maxUnicodeClasses = 4
)

// The groups of a pattern. A line with text in the group stop ends the progress until another line matches, such as
// before a long evaluation. A line with text in the group fault shows that the program cannot go on.
const (
	groupStep  = "step"
	groupTotal = "total"
	groupStop  = "stop"
	groupFault = "fault"
)

// Groups are the names of the groups that have a meaning.
var Groups = []string{groupStep, groupTotal, groupStop, groupFault}

// Pattern matches the lines that a program prints while it makes progress. It is immutable.
type Pattern struct {
	regexp *regexp.Regexp
	// The indexes of the groups; -1 without the group.
	step, total, stop, fault int
}

// Compile returns the pattern of a text.
func Compile(text string) (*Pattern, error) {
	if text == "" || len(text) > MaxPatternLength {
		return nil, fmt.Errorf("must have 1 to %d bytes, has %d", MaxPatternLength, len(text))
	}
	if strings.Count(strings.ToLower(text), `\p`) > maxUnicodeClasses {
		return nil, fmt.Errorf("must have at most %d Unicode classes such as \\pL", maxUnicodeClasses)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if countInstructions(tree) > maxInstructions {
		return nil, errors.New("the expression is too large; use * or + instead of long repetitions")
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("compiling the expression: %w", err)
	}
	p := &Pattern{
		regexp: compiled, step: compiled.SubexpIndex(groupStep), total: compiled.SubexpIndex(groupTotal),
		stop: compiled.SubexpIndex(groupStop), fault: compiled.SubexpIndex(groupFault),
	}
	if p.total >= 0 && p.step < 0 {
		return nil, errors.New("the group total requires the group step")
	}
	return p, nil
}

// countInstructions returns an upper bound of the number of instructions of an expression. The parser accepts at most
// 1000 nested repetitions, so the number does not overflow.
func countInstructions(tree *syntax.Regexp) int {
	n := 2
	if tree.Op == syntax.OpLiteral {
		n = len(tree.Rune)
	}
	for _, part := range tree.Sub {
		n += countInstructions(part)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min, tree.Max, 1)
	}
	return n
}

// String returns the text of the pattern; empty for nil.
func (p *Pattern) String() string {
	if p == nil {
		return ""
	}
	return p.regexp.String()
}

// UnknownGroups returns the names of groups that have no meaning; nil for nil.
func (p *Pattern) UnknownGroups() []string {
	if p == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.regexp.SubexpNames()), func(name string) bool {
		return name == "" || slices.Contains(Groups, name)
	})
}

// Equal reports whether two patterns, which may be nil, have the same text.
func (p *Pattern) Equal(o *Pattern) bool { return p.String() == o.String() }
