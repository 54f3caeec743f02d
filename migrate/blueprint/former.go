package blueprint

import (
	"slices"
	"strconv"
	"strings"
)

// Former is how a role's pods were known in their former system. The zero value means
// that they had no name to be called by.
type Former struct {
	// Prefix is what stands before the index in a pod's name, such as "train-worker-".
	Prefix string
	// Single is true where the role's one pod had no index: Prefix is its name.
	Single bool
	// Alone is true when the name was one of DNS by itself, that of a Service for each
	// pod. Otherwise a subdomain followed it, and the pod was a host in there.
	Alone bool
	// IndexField is the field of a pod that held its index within the role, such as
	// metadata.labels['example.com/index'], where containers may read it; empty when
	// there was none, or when the pods still have it.
	IndexField string
	// Part is the system's word for the role in its labels; empty when it had none.
	Part string
	// Workloads are the names of the Jobs that made the pods; nil where none did.
	Workloads []string
}

// name is the former name of the pod with the given index.
func (f Former) name(index int32) string {
	if f.Single {
		return f.Prefix
	}
	return f.Prefix + strconv.Itoa(int(index))
}

// call is a place in a text where a pod is called by its former name.
type call struct {
	// start and end enclose the name as far as it is written there.
	start, end int
	// index is the pod's, unless it is computed.
	index int32
	// computed is true where the index is not written, but put in by whoever reads the
	// text: train-worker-$i.
	computed bool
}

// inName are the characters of DNS labels: beside one of them stands a part of a longer
// name.
func inName(text string, at int) bool {
	return at >= 0 && at < len(text) && strings.IndexByte("abcdefghijklmnopqrstuvwxyz0123456789-", text[at]) >= 0
}

// OfFile reports whether what stands there is part of a file's name or path rather than a
// host's: /logs/train-worker-0, train-worker-0/out.log, train-worker-0.sh, run_train-worker-0.
// A slash after two of them begins a host again: http://train-worker-0/.
func OfFile(text string, start, end int) bool {
	before, after := text[:start], text[end:]
	if strings.HasSuffix(before, "//") {
		return false
	}
	if strings.HasSuffix(before, "/") || strings.HasSuffix(before, "_") || strings.HasPrefix(after, "_") {
		return true
	}
	if strings.HasPrefix(after, "/") && !strings.HasSuffix(before, "@") {
		return true
	}
	ending, ok := strings.CutPrefix(after, ".")
	if !ok {
		return false
	}
	if i := strings.IndexFunc(ending, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }); i >= 0 {
		ending = ending[:i]
	}
	return slices.Contains(fileEndings, ending)
}

// fileEndings are those of files that are named after pods; no domain of a gang is
// called so.
var fileEndings = []string{"sh", "py", "log", "txt", "json", "yaml", "yml", "pt", "pth", "ckpt", "csv", "out", "err", "tar", "gz"}

// calls finds the places where a text calls one of the pods.
func (f Former) calls(text string) []call {
	var out []call
	if f.Prefix == "" {
		return nil
	}
	for from := 0; ; {
		at := strings.Index(text[from:], f.Prefix)
		if at < 0 {
			return out
		}
		start := from + at
		from = start + len(f.Prefix)
		if inName(text, start-1) {
			continue
		}
		if c, ok := f.call(text, start, from); ok {
			from = c.end
			if !OfFile(text, start, c.end) {
				out = append(out, c)
			}
		}
	}
}

// call reads what follows the prefix.
func (f Former) call(text string, start, end int) (call, bool) {
	if f.Single {
		return call{start: start, end: end}, !inName(text, end)
	}
	digits := end
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	if digits > end {
		n, err := strconv.ParseInt(text[end:digits], 10, 32)
		return call{start: start, end: digits, index: int32(n)}, err == nil && !inName(text, digits)
	}
	// A variable of a shell or a template, or a text that is joined to a number.
	computed := end == len(text) || strings.IndexByte("${%\"'", text[end]) >= 0
	return call{start: start, end: end, computed: computed}, computed
}
