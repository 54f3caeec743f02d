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
var agentLine = regexp.MustCompile(`^[WE]\d{4} \d\d:\d\d:(\d\d\.\d{3})\d* .*\btorch/distributed/elastic/multiprocessing/api\.py`)

// agentTrace begins the trace that torchrun prints of itself when it ends by that, before
// its report.
var agentTrace = regexp.MustCompile(`(?m)^Traceback \(most recent call last\):\n  File "[^"]*(torchrun|torch/distributed/run\.py)"`)

// agentTold is what torchrun ends with when it is told to, which is with code 1.
var agentTold = regexp.MustCompile(`\bSignalException: Process \d+ got signal: 15\b`)

// account is what the last words of a container tell of its end.
type account struct {
	// words are why the program failed, where it said so.
	words string
	// peer is true when it lost another rank, told when it was asked to end.
	peer, told bool
	// noticed is when its launcher noticed; zero where there is none.
	noticed time.Time
}

// read reads the last words of a container that ended at a time. Most hold none of what is
// looked for, and all ranks are looked at anew when one of them moves.
func read(text string, ended time.Time) account {
	a := account{peer: lost(text), told: strings.Contains(text, "SignalException") && agentTold.MatchString(text)}
	said, lines := beforeAgent(text)
	if len(lines) > 0 {
		a.noticed = noticed(lines[0], ended)
	}
	if len(lines) > 1 || len(lines) > 0 && !strings.Contains(text, "<NO_OTHER_FAILURES>") {
		a.peer = false // one of several workers said so, and may have lost the one beside it
	}
	switch {
	case strings.Contains(text, "traceback : Traceback"): // the report has the reason
		a.words = tail(text)
	case strings.Contains(said, "\n"):
		a.words = tail(said)
	default: // of a line's rest one learns less than of the report
		a.words = tail(text)
	}
	return a
}

// beforeAgent takes a text apart that ends with a report of torchrun: what was said before,
// and the agent's own lines before its report.
func beforeAgent(text string) (said string, lines []string) {
	if !strings.Contains(text, "torchrun\"") && !strings.Contains(text, "torch/distributed/run.py\"") {
		return strings.TrimSpace(text), nil
	}
	at := agentTrace.FindStringIndex(text)
	if at == nil {
		return strings.TrimSpace(text), nil
	}
	said = strings.TrimSpace(text[:at[0]])
	for said != "" {
		cut := strings.LastIndexByte(said, '\n') + 1
		if !agentLine.MatchString(said[cut:]) {
			break
		}
		lines = append([]string{said[cut:]}, lines...)
		said = strings.TrimSpace(said[:cut])
	}
	return said, lines
}

// noticed is the time of an agent's line, which it wrote less than a minute before it ended:
// it gives its other workers half a minute.
func noticed(line string, ended time.Time) time.Time {
	into, err := time.ParseDuration(agentLine.FindStringSubmatch(line)[1] + "s")
	if err != nil {
		return time.Time{}
	}
	at := ended.Truncate(time.Minute).Add(into)
	if !at.Before(ended.Truncate(time.Second).Add(time.Second)) {
		at = at.Add(-time.Minute)
	}
	return at
}

// tail keeps the end of a text, where programs say why they fail, from the beginning of a
// line if it can.
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
