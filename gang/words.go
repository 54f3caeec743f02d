package gang

import (
	"regexp"
	"strings"
	"time"
)

// longestMessage bounds what is kept of a message. It stands in an annotation of each
// member, and in Events, which hold 1 KiB.
const longestMessage = 512

// agentLine is a line of torchrun about a worker that ended, or that it ends for that
// (torch/distributed/elastic/multiprocessing/api.py since PyTorch 2.3). It has the seconds to
// the millisecond, in a time zone that nobody knows here.
var agentLine = regexp.MustCompile(`(?m)^[WE]\d{4} \d\d:\d\d:(\d\d\.\d{3})\d* .*\btorch/distributed/elastic/multiprocessing/api\.py`)

// agentTrace begins the trace that torchrun prints of itself then, before its report.
var agentTrace = regexp.MustCompile(`(?m)^Traceback \(most recent call last\):\n  File "[^"]*(torchrun|torch/distributed/run\.py)"`)

// agentTold is what torchrun ends with when it is told to, which is with code 1.
var agentTold = regexp.MustCompile(`\bSignalException: Process \d+ got signal: (2|15)\b`)

// noticed is when the launcher of a container that ended at a time noticed that its training
// had, by its last words; zero when they do not tell. That was less than a minute before, for
// torchrun gives its other workers half a minute to end.
func noticed(words string, ended time.Time) time.Time {
	m := agentLine.FindStringSubmatch(words)
	if m == nil {
		return time.Time{}
	}
	into, err := time.ParseDuration(m[1] + "s")
	if err != nil {
		return time.Time{}
	}
	at := ended.Truncate(time.Minute).Add(into)
	if !at.Before(ended.Truncate(time.Second).Add(time.Second)) {
		at = at.Add(-time.Minute)
	}
	return at
}

// lastWords keeps the end of what a container said, where programs tell why they fail. What
// torchrun says after that is left out where more than a line's rest stands before it: a trace
// of itself, and a report without the reason.
func lastWords(text string) string {
	cut := len(text)
	for _, own := range []*regexp.Regexp{agentLine, agentTrace} {
		if at := own.FindStringIndex(text); at != nil {
			cut = min(cut, at[0])
		}
	}
	if said := strings.TrimSpace(text[:cut]); strings.Contains(said, "\n") {
		return tail(said)
	}
	return tail(text)
}

// tail keeps the end of a text, from the beginning of a line if it can.
func tail(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= longestMessage {
		return text
	}
	text = strings.ToValidUTF8(text[len(text)-longestMessage:], "")
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		text = rest
	}
	return "… " + text
}
