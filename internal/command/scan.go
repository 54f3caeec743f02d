package command

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// textPrograms only print, find or install what their arguments name.
var textPrograms = []string{
	"echo", "printf", "which", "command", "type", "pip", "pip3", "uv", "apt", "apt-get", "conda",
}

// byWord returns the names of launchers by the word that starts them, a program or a module.
func (ls Launchers) byWord() map[string]string {
	names := map[string]string{}
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
func (ls Launchers) Scan(words []string) string {
	var text strings.Builder
	for _, word := range words {
		separator := " "
		if isScript := strings.ContainsAny(word, " \t\n"); isScript {
			separator = "\n"
		}
		text.WriteString(separator + word)
	}
	byWord := ls.byWord()
	for line := range strings.FieldsFuncSeq(text.String(), isCommandSeparator) {
		if launcher := scanLine(line, byWord); launcher != "" {
			return launcher
		}
	}
	return ""
}

func isCommandSeparator(r rune) bool { return strings.ContainsRune("\n;&|", r) }

// scanLine returns the launcher in the words of one command.
func scanLine(line string, launchersByWord map[string]string) string {
	isFirst := true
	for word := range strings.FieldsSeq(line) {
		word = strings.Trim(word, `"'(){}`)
		name := path.Base(word)
		if isFirst && (strings.HasPrefix(word, "#") || slices.Contains(textPrograms, name) && !runsProgram(line)) {
			return ""
		}
		for _, key := range []string{name, word} { // a module has no slash
			if launcher := launchersByWord[key]; launcher != "" {
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

// processCountFlag matches the flag of torchrun and colossalai with a number or a variable.
var processCountFlag = regexp.MustCompile(
	`--nproc[-_]per[-_]node[=\s]+["']?(?:([0-9]+)|\$[({]?([A-Za-z_][A-Za-z0-9_]*))`)

const (
	// maxScannedBytes limits the text of a command that is searched for flags, and maxScannedFlags the flags.
	maxScannedBytes = 1 << 16
	maxScannedFlags = 8
)

// ScanProcessCounts returns the numbers of processes in flags of torchrun and colossalai, and the variables in
// flags. Like [Launchers.Scan], it reads words.
func ScanProcessCounts(words []string) (numbers, variables []string) {
	text := strings.Join(words, "\n")
	text = text[:min(len(text), maxScannedBytes)]
	for _, match := range processCountFlag.FindAllStringSubmatch(text, maxScannedFlags) {
		numbers, variables = append(numbers, match[1]), append(variables, match[2])
	}
	return numbers, variables
}
