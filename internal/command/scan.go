package command

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// textPrograms only print, find or install what their arguments name.
var textPrograms = []string{
	"echo", "printf", "which", "command", "type", "pip", "pip3", "uv", "apt", "apt-get", "conda",
}

// Scanner finds launchers in commands. It contains the names of launchers by the word that starts them, a program
// or a module.
type Scanner map[string]string

// NewScanner returns a scanner for many commands.
func (ls Launchers) NewScanner() Scanner {
	names := Scanner{}
	for _, l := range ls {
		for _, module := range l.Modules {
			names[module] = l.Name
		}
	}
	for _, l := range ls {
		for _, program := range l.Programs {
			names[program] = program
		}
	}
	return names
}

// Scan returns the name of the first launcher that a command runs; empty if there is none. It reads the
// words of commands and scripts and does not parse the shell: it is an indication, on an input of any size, for
// admission.
func (s Scanner) Scan(words []string) string {
	var text strings.Builder
	for _, word := range words {
		separator := " "
		if isScript := strings.ContainsAny(word, " \t\n"); isScript {
			separator = "\n"
		}
		text.WriteString(separator + word)
	}
	for line := range strings.FieldsFuncSeq(text.String(), isCommandSeparator) {
		if launcher := s.scanLine(line); launcher != "" {
			return launcher
		}
	}
	return ""
}

func isCommandSeparator(r rune) bool { return strings.ContainsRune("\n;&|", r) }

// scanLine returns the launcher in the words of one command.
func (s Scanner) scanLine(line string) string {
	isFirst := true
	for word := range strings.FieldsSeq(line) {
		word = strings.Trim(word, `"'(){}`)
		name := path.Base(word)
		if isFirst && (strings.HasPrefix(word, "#") || slices.Contains(textPrograms, name) && !runsProgram(line)) {
			return ""
		}
		for _, key := range []string{name, word} { // a module has no slash
			if launcher := s[key]; launcher != "" {
				return launcher
			}
		}
		isFirst = false
	}
	return ""
}

// runsProgram reports whether a command such as uv or conda runs the program in its arguments.
func runsProgram(line string) bool {
	words := strings.Fields(line[:min(len(line), 256)])
	return len(words) > 1 && words[1] == "run"
}

// ScannedFlag is a flag in the words of a command.
type ScannedFlag struct {
	// Name is the flag as it is written, with its dashes.
	Name string
	// Value is the text after the flag, up to the next space, quote or semicolon. It is the next word if the flag has
	// no value.
	Value string
}

// Number returns the number in the value of a flag, such as 4, or ppr:4:node of Open MPI. It is 0 if there is none.
func (f ScannedFlag) Number() int {
	first, _, _ := strings.Cut(strings.TrimPrefix(f.Value, "ppr:"), ":")
	n, _ := strconv.Atoi(first)
	return n
}

// ScanFlags returns the flags of a list, as in [LauncherProgram], that a command contains. Like [Scanner.Scan], it
// reads words and does not parse the shell.
func ScanFlags(words []string, names string) []ScannedFlag {
	parts := strings.FieldsFunc(strings.Join(words, " "), func(r rune) bool {
		return strings.ContainsRune(" \t\n='\";\\", r)
	})
	parts = append(parts, "") // after a flag at the end
	var found []ScannedFlag
	for i, part := range parts {
		name := strings.ReplaceAll(strings.TrimLeft(part, "-"), "_", "-")
		if strings.HasPrefix(part, "-") && ContainsFlag(names, name) {
			found = append(found, ScannedFlag{Name: part, Value: parts[i+1]})
		}
	}
	return found
}

// ScanFlags returns the flags of a list in the arguments of a launcher before its training program, also after flags
// that [Launch.Flags] does not understand.
func (l Launch) ScanFlags(names string) []ScannedFlag {
	var words []string
	for _, a := range l.Args[:l.indexProgram()] {
		words = append(words, a.Text)
	}
	return ScanFlags(words, names)
}

// indexProgram returns the index of the first argument that must be the training program. A word after an unknown
// flag can be a value of the flag. It returns the number of arguments if there is no such word.
func (l Launch) indexProgram() int {
	followsUnknown := false
	for i := 0; i < len(l.Args); i++ {
		arg := l.Args[i]
		if !strings.HasPrefix(arg.Text, "-") {
			if followsUnknown = followsUnknown || !arg.Known; !followsUnknown {
				return i
			}
			continue
		}
		name, _, hasInlineValue := SplitFlag(arg.Text)
		count, known := l.countValues(name)
		followsUnknown = !known && !hasInlineValue
		if known && !hasInlineValue {
			i += count
		}
	}
	return len(l.Args)
}

// processCountFlag matches the flag of torchrun and colossalai with a number or a variable.
var processCountFlag = regexp.MustCompile(
	`--nproc[-_]per[-_]node[=\s]+["']?(?:([0-9]+)|\$[({]?([A-Za-z_][A-Za-z0-9_]*))`)

const (
	// maxScannedBytes limits the text of a command that is searched for flags, and maxScannedFlags the flags.
	maxScannedBytes = 1 << 16
	maxScannedFlags = 8
)

// ScanProcessCounts returns the numbers of processes in flags of torchrun and colossalai, and the variables in
// flags. Like [Scanner.Scan], it reads words.
func ScanProcessCounts(words []string) (numbers, variables []string) {
	text := strings.Join(words, "\n")
	text = text[:min(len(text), maxScannedBytes)]
	for _, match := range processCountFlag.FindAllStringSubmatch(text, maxScannedFlags) {
		numbers, variables = append(numbers, match[1]), append(variables, match[2])
	}
	return numbers, variables
}
