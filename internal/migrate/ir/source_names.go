package ir

import (
	"regexp"
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

// FormerHosts are the former hostnames of some pods.
type FormerHosts struct {
	// Pattern matches a hostname. Its groups are the indexes of the pod.
	Pattern *regexp.Regexp
	// Rename returns the new hostname for the indexes, or "" for a name that stays. The name is followed by
	// rest.
	Rename func(indexes []string, rest string) string
	// Domain matches the former domain after a hostname, which is replaced by Service. Nil means that the
	// domain stays.
	Domain  *regexp.Regexp
	Service func(host string) string
}

// Replace returns a text with the new hostnames. Longer names and files with the name of a pod stay.
func (h FormerHosts) Replace(text string) string {
	var out strings.Builder
	from := 0
	for _, match := range h.Pattern.FindAllStringSubmatchIndex(text, -1) {
		start, end := match[0], match[1]
		if isNameByteAt(text, start-1) || isNameByteAt(text, end) || isInFilePath(text, start, end) {
			continue
		}
		var indexes []string
		for i := 2; i < len(match); i += 2 {
			indexes = append(indexes, text[match[i]:match[i+1]])
		}
		host := h.Rename(indexes, text[end:])
		if host == "" {
			continue
		}
		out.WriteString(text[from:start] + host)
		from = end
		if h.Domain == nil {
			continue
		}
		if domain := h.Domain.FindString(text[end:]); domain != "" && !isNameByteAt(text, end+len(domain)) {
			out.WriteString("." + h.Service(host))
			from = end + len(domain)
		}
	}
	return out.String() + text[from:]
}

// isNameByteAt reports whether a byte can be part of a DNS label. A name next to such a byte is
// part of a longer name.
func isNameByteAt(text string, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	b := text[at] | 0x20 // in lower case
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || text[at] == '-'
}

// isInFilePath reports whether the given part of a text belongs to a file path instead of a host:
// /logs/train-worker-0, train-worker-0/out.log, train-worker-0.sh, run_train-worker-0. A host
// follows two slashes: http://train-worker-0/.
func isInFilePath(text string, start, end int) bool {
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

// hostReference is the former name of a pod in a text.
type hostReference struct {
	// index is the index of the pod, unless it is computed.
	index int32
	// computed is true if the text is a template whose index is inserted later: train-worker-$i.
	computed bool
	// quote is the name with the first byte of a variable.
	quote string
}

// replaceHosts returns a text with the names that rename returns. An empty name stays.
func (n SourceNames) replaceHosts(text string, rename func(hostReference) string) string {
	if n.Prefix == "" {
		return text
	}
	hosts := FormerHosts{Pattern: regexp.MustCompile(regexp.QuoteMeta(n.Prefix) + `([0-9]*)`)}
	if n.SinglePod {
		hosts.Pattern = regexp.MustCompile(regexp.QuoteMeta(n.Prefix) + `()`)
	}
	hosts.Rename = func(indexes []string, rest string) string {
		// A shell or template variable, or a string that a program concatenates with a number.
		isComputed := rest == "" || strings.ContainsAny(rest[:1], "${%\"'")
		index, err := strconv.ParseInt(indexes[0], 10, 32)
		switch {
		case n.SinglePod || err == nil:
			return rename(hostReference{index: int32(index)})
		case indexes[0] == "" && isComputed:
			return rename(hostReference{computed: true, quote: n.Prefix + rest[:min(1, len(rest))]})
		}
		return ""
	}
	return hosts.Replace(text)
}
