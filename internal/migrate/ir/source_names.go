package ir

import (
	"slices"
	"strconv"
	"strings"
)

// SourceNames are the former names of the pods of a role. The zero value means that the pods had
// no hostnames.
type SourceNames struct {
	// Prefix precedes the index in a pod's name, for example "train-worker-".
	Prefix string
	// SinglePod is true if the only pod of the role had no index. Prefix is its name.
	SinglePod bool
	// PerPodService is true if each pod had a Service of the same name. Otherwise the pods were
	// hosts in the subdomain of one Service.
	PerPodService bool
	// IndexField is the downward API path of the index within the role, for example
	// metadata.labels['example.com/index']. It is empty if there was none or if the new pods
	// have it too.
	IndexField string
	// Role is the role in the labels of the former system, or "".
	Role string
}

// podName returns the former name of the pod with the given index.
func (n SourceNames) podName(index int32) string {
	if n.SinglePod {
		return n.Prefix
	}
	return n.Prefix + strconv.Itoa(int(index))
}

// hostReference is a place in a text that contains the former name of a pod.
type hostReference struct {
	// start and end delimit the name, without an index that is computed.
	start, end int
	// index is the index of the pod, unless it is computed.
	index int32
	// computed is true if the text is a template whose index is inserted later:
	// train-worker-$i.
	computed bool
}

// isNameByteAt reports whether a byte can be part of a DNS label. A name next to such a byte is
// part of a longer name.
func isNameByteAt(text string, at int) bool {
	return at >= 0 && at < len(text) && strings.IndexByte("abcdefghijklmnopqrstuvwxyz0123456789-", text[at]) >= 0
}

// IsInFilePath reports whether the given part of a text belongs to a file path instead of a host:
// /logs/train-worker-0, train-worker-0/out.log, train-worker-0.sh, run_train-worker-0. A host
// follows two slashes: http://train-worker-0/.
func IsInFilePath(text string, start, end int) bool {
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
	extension, ok := strings.CutPrefix(after, ".")
	if !ok {
		return false
	}
	isAlphanumeric := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	if i := strings.IndexFunc(extension, func(r rune) bool { return !isAlphanumeric(r) }); i >= 0 {
		extension = extension[:i]
	}
	return slices.Contains(fileExtensions, extension)
}

// fileExtensions are extensions of files that users name after pods. No Service of a gang has such
// a name.
var fileExtensions = []string{
	"sh", "py", "log", "txt", "json", "yaml", "yml", "pt", "pth", "ckpt", "csv", "out", "err", "tar", "gz",
}

// findHostReferences finds the places in a text that contain the former name of a pod.
func (n SourceNames) findHostReferences(text string) []hostReference {
	var out []hostReference
	if n.Prefix == "" {
		return nil
	}
	for from := 0; ; {
		at := strings.Index(text[from:], n.Prefix)
		if at < 0 {
			return out
		}
		start := from + at
		from = start + len(n.Prefix)
		if isNameByteAt(text, start-1) {
			continue
		}
		if ref, ok := n.parseHostReference(text, start, from); ok {
			from = ref.end
			if !IsInFilePath(text, start, ref.end) {
				out = append(out, ref)
			}
		}
	}
}

// parseHostReference parses the index after the prefix, which ends at end.
func (n SourceNames) parseHostReference(text string, start, end int) (hostReference, bool) {
	if n.SinglePod {
		return hostReference{start: start, end: end}, !isNameByteAt(text, end)
	}
	digits := end
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	if digits > end {
		index, err := strconv.ParseInt(text[end:digits], 10, 32)
		return hostReference{start: start, end: digits, index: int32(index)}, err == nil && !isNameByteAt(text, digits)
	}
	// A shell or template variable, or a string that a program concatenates with a number.
	computed := end == len(text) || strings.IndexByte("${%\"'", text[end]) >= 0
	return hostReference{start: start, end: end, computed: computed}, computed
}
