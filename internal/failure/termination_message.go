package failure

import (
	"regexp"
	"strings"
	"time"
)

// maxMessageLength is the maximum length of a message in bytes. The message is part of an annotation
// of each member, and of Events, which are limited to 1 KiB.
const maxMessageLength = 512

// torchrunLogLine matches a log line of torchrun about a worker that exited, or that torchrun
// terminates as a consequence (torch/distributed/elastic/multiprocessing/api.py since PyTorch 2.3).
// The first group is the second and the millisecond. The time zone of the line is unknown.
var torchrunLogLine = regexp.MustCompile(
	`^[WE]\d{4} \d\d:\d\d:(\d\d\.\d{3})\d* .*\btorch/distributed/elastic/multiprocessing/api\.py`)

// torchrunTraceback matches the start of the traceback that torchrun prints before its report.
var torchrunTraceback = regexp.MustCompile(
	`(?m)^Traceback \(most recent call last\):\n  File "[^"]*(torchrun|torch/distributed/run\.py)"`)

// torchrunSIGTERMException matches the exception with which torchrun exits after SIGTERM. Its exit
// code is 1.
var torchrunSIGTERMException = regexp.MustCompile(`\bSignalException: Process \d+ got signal: 15\b`)

// agentReport matches the line of the agent about a host that it cannot reach or lost (internal/agent/client.go).
// Open MPI then prints a long text that does not name the host.
var agentReport = regexp.MustCompile(`(?m)^rollcall: (connecting to|the connection to) host .*$`)

// terminationDetails is the information in the termination message of a container.
type terminationDetails struct {
	// message is the part that explains why the program failed.
	message string
	// lostPeer is true if the message reports a lost peer.
	lostPeer bool
	// receivedSIGTERM is true if torchrun reports that it was terminated.
	receivedSIGTERM bool
	// detectedTime is when torchrun detected the failure; zero without a report of torchrun.
	detectedTime time.Time
}

// parseTerminationMessage reads the termination message of a container that exited at a time. It is
// called for all failed containers of a gang in each pass, so it searches for plain strings before
// it matches a regular expression.
func parseTerminationMessage(text string, finished time.Time) terminationDetails {
	details := terminationDetails{
		lostPeer:        reportsLostPeer(text),
		receivedSIGTERM: strings.Contains(text, "SignalException") && torchrunSIGTERMException.MatchString(text),
	}
	programOutput, agentLines := splitTorchrunReport(text)
	if len(agentLines) > 0 {
		details.detectedTime = torchrunLogTime(agentLines[0], finished)
	}
	if hasSeveralWorkers(text, agentLines) {
		// The worker that reports a lost peer may have lost another worker of the same pod.
		details.lostPeer = false
	}
	hasReasonInReport := strings.Contains(text, "traceback : Traceback")
	// The rest of a truncated line is less useful than the report.
	hasCompleteLine := strings.Contains(programOutput, "\n")
	if hasCompleteLine && !hasReasonInReport {
		details.message = TruncateMessage(programOutput)
	} else {
		details.message = TruncateMessage(text)
	}
	if strings.Contains(text, "rollcall: ") {
		details.message = addAgentReport(details.message, agentReport.FindString(text))
	}
	return details
}

// addAgentReport returns a message that starts with the report of the agent, unless it contains the report already.
func addAgentReport(message, report string) string {
	if strings.Contains(message, report) {
		return message
	}
	report = strings.ToValidUTF8(report[:min(len(report), maxMessageLength/2)], "")
	return report + "\n" + truncate(strings.TrimPrefix(message, "… "), maxMessageLength-len(report)-1)
}

// hasSeveralWorkers reports whether torchrun logged or reported more than one worker.
func hasSeveralWorkers(text string, agentLines []string) bool {
	return len(agentLines) > 1 || len(agentLines) > 0 && !strings.Contains(text, "<NO_OTHER_FAILURES>")
}

// splitTorchrunReport splits a text that ends with a report of torchrun. It returns the output of the
// program, and the log lines of the torchrun agent directly before the report. There are no lines if
// the text has no report.
func splitTorchrunReport(text string) (programOutput string, agentLines []string) {
	if !strings.Contains(text, "torchrun\"") && !strings.Contains(text, "torch/distributed/run.py\"") {
		return strings.TrimSpace(text), nil
	}
	report := torchrunTraceback.FindStringIndex(text)
	if report == nil {
		return strings.TrimSpace(text), nil
	}
	programOutput = strings.TrimSpace(text[:report[0]])
	for programOutput != "" {
		lineStart := strings.LastIndexByte(programOutput, '\n') + 1
		if !torchrunLogLine.MatchString(programOutput[lineStart:]) {
			break
		}
		agentLines = append([]string{programOutput[lineStart:]}, agentLines...)
		programOutput = strings.TrimSpace(programOutput[:lineStart])
	}
	return programOutput, agentLines
}

// torchrunLogTime returns the time of a log line of the torchrun agent. The agent gives its other
// workers 30 seconds to exit, so it wrote the line less than a minute before the container exited.
// The minute and the hour of the line are ignored, because its time zone is unknown.
func torchrunLogTime(line string, finished time.Time) time.Time {
	secondOfMinute, err := time.ParseDuration(torchrunLogLine.FindStringSubmatch(line)[1] + "s")
	if err != nil {
		return time.Time{}
	}
	logged := finished.Truncate(time.Minute).Add(secondOfMinute)
	if !logged.Before(finished.Truncate(time.Second).Add(time.Second)) {
		logged = logged.Add(-time.Minute)
	}
	return logged
}

// TruncateMessage shortens a text to its last 512 bytes, because programs print the reason of a
// failure last. The result starts with an ellipsis and, if possible, with a complete line.
func TruncateMessage(text string) string { return truncate(text, maxMessageLength) }

func truncate(text string, length int) string {
	text = strings.TrimSpace(text)
	if len(text) <= length {
		return text
	}
	text = strings.ToValidUTF8(text[len(text)-length:], "")
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		text = rest
	}
	return "… " + text
}
