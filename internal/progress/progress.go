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
	// Rate is the number of steps in a second, or that of lines for a pattern without steps; 0 if it is not known. It does
	// not count the time from a line with the group stop to the next step, unless each step has such a line.
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
	var last match
	var all, trained span // since the steps decreased last; trained has no pauses
	paused := false
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
		paused = paused || m.stop
		if out.Stopped = m.stop; m.stop || m.fault {
			continue
		}
		m.time = t
		startsAgain := (m.step == nil) != (last.step == nil) || m.step != nil && *m.step < *last.step
		if out.Matches == 0 || startsAgain {
			all, trained = span{}, span{}
		} else {
			all.add(last, m)
			if !paused {
				trained.add(last, m)
			}
		}
		last, paused = m, false
		out.Matches++
	}
	out.LastTime, out.Step, out.Total = last.time, last.step, last.total
	if trained.isEmpty() {
		trained = all
	}
	out.addRate(trained, last)
	return out
}

// span is a part of the training.
type span struct {
	steps float64
	time  time.Duration
}

// add adds the part from a line to the next. A line without a step is one step.
func (s *span) add(from, to match) {
	s.time += to.time.Sub(from.time)
	if to.step == nil {
		s.steps++
		return
	}
	s.steps += *to.step - *from.step
}

func (s span) isEmpty() bool { return s.steps <= 0 || s.time <= 0 }

// addRate sets the rate of a part of the training, and the time that remains after the last line.
func (p *Progress) addRate(trained span, last match) {
	if trained.isEmpty() {
		return
	}
	p.Rate = trained.steps / trained.time.Seconds()
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
