package progress

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxLogBytes is the number of bytes at the end of a log that are searched.
const MaxLogBytes = 64 * 1024

// Progress is what a part of a log shows. Its JSON is part of the output of rollcall status -o json.
type Progress struct {
	// Stopped is true if the last line with a match has the group stop, and Faulted if any has the group fault. The other
	// fields do not contain such lines.
	Stopped bool `json:"-"`
	Faulted bool `json:"-"`
	// Matches is the number of lines that match the pattern. The fields below are meaningless if it is 0.
	Matches int `json:"-"`
	// LastTime is when the last of these lines was printed.
	LastTime time.Time `json:"lastTime"`
	// Step and Total are the numbers in the last line; nil without the group, and if it is not a number.
	Step  *float64 `json:"step,omitempty"`
	Total *float64 `json:"total,omitempty"`
	// Rate is the number of steps in a second, or that of lines for a pattern without steps; 0 if it is not known.
	Rate float64 `json:"rate,omitempty"`
	// RemainingSeconds is the time from the last line to the last step at this rate; nil if it is not known.
	RemainingSeconds *int64 `json:"remainingSeconds,omitempty"`
}

// match is a line that matches a pattern.
type match struct {
	time        time.Time
	step, total *float64
	// stop and fault are true if the group has text.
	stop, fault bool
}

// Read returns what a log shows whose lines start with RFC 3339 times. It reads the last [MaxLogBytes]. It ignores
// lines up to a time, and a last line that is not complete.
func (p *Pattern) Read(log string, after time.Time) Progress {
	log = log[max(0, len(log)-MaxLogBytes):]
	log = log[:strings.LastIndexByte(log, '\n')+1]
	var out Progress
	var first, last match // the steps between them do not decrease
	firstIndex := 0
	for line := range strings.Lines(log) {
		timestamp, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		t, err := time.Parse(time.RFC3339Nano, timestamp)
		if err != nil || !t.After(after) {
			continue // the line is the end of a longer one, or was read before
		}
		m, ok := p.findLast(text)
		if !ok {
			continue
		}
		out.Faulted = out.Faulted || m.fault
		if out.Stopped = m.stop; m.stop || m.fault {
			continue
		}
		m.time = t
		startsAgain := (m.step == nil) != (last.step == nil) || m.step != nil && *m.step < *last.step
		if out.Matches == 0 || startsAgain {
			first, firstIndex = m, out.Matches
		}
		last = m
		out.Matches++
	}
	out.LastTime, out.Step, out.Total = last.time, last.step, last.total
	out.addRate(first, last, out.Matches-1-firstIndex)
	return out
}

// addRate sets the rate between two lines, with a number of lines from the first to the last.
func (p *Progress) addRate(first, last match, lines int) {
	seconds := last.time.Sub(first.time).Seconds()
	steps := float64(lines)
	if last.step != nil {
		steps = *last.step - *first.step
	}
	if seconds <= 0 || steps <= 0 {
		return
	}
	p.Rate = steps / seconds
	if last.total == nil || *last.total < *last.step {
		return
	}
	if remaining := (*last.total - *last.step) / p.Rate; remaining < math.MaxInt32 {
		whole := int64(remaining)
		p.RemainingSeconds = &whole
	}
}

// findLast returns the last match in a line. Progress bars overwrite their line after a carriage return.
func (p *Pattern) findLast(line string) (match, bool) {
	for {
		i := strings.LastIndexByte(line, '\r')
		part := line[i+1:]
		if groups := p.regexp.FindStringSubmatch(part); groups != nil {
			return match{
				step: parseGroup(groups, p.step), total: parseGroup(groups, p.total),
				stop: hasGroup(groups, p.stop), fault: hasGroup(groups, p.fault),
			}, true
		}
		if i < 0 {
			return match{}, false
		}
		line = line[:i]
	}
}

func hasGroup(groups []string, index int) bool { return index >= 0 && groups[index] != "" }

// parseGroup returns the number in a group; nil if there is none.
func parseGroup(groups []string, index int) *float64 {
	if index < 0 {
		return nil
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(groups[index]), 64)
	if err != nil || math.IsNaN(n) || math.Abs(n) > 1e15 {
		return nil
	}
	return &n
}
