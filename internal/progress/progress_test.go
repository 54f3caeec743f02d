package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// testTime is the time of the first line of the logs.
var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newLog returns a log whose lines were printed 10 seconds apart.
func newLog(lines ...string) string {
	var out strings.Builder
	for i, line := range lines {
		out.WriteString(testTime.Add(time.Duration(i)*10*time.Second).Format(time.RFC3339Nano) + " " + line + "\n")
	}
	return out.String()
}

func mustCompile(t testing.TB, text string) *Pattern {
	t.Helper()
	p, err := Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCompile checks which patterns are valid.
func TestCompile(t *testing.T) {
	for name, c := range map[string]struct {
		pattern string
		want    string // part of the error; empty if the pattern is valid
	}{
		"a step and a total":       {pattern: `step (?P<step>\d+)/(?P<total>\d+)`},
		"a pattern without groups": {pattern: `epoch`},
		"any line":                 {pattern: `.*`},
		"a date and a time": {
			pattern: `^\[\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2},\d{3}\].* (?P<step>\d+)/\s*(?P<total>\d+)`,
		},
		"letters of any language":          {pattern: `^\pL+ (?<step>\d+)`},
		"the longest pattern":              {pattern: strings.Repeat("a", 256)},
		"an empty pattern":                 {want: "1 to 256 bytes"},
		"a pattern that is too long":       {pattern: strings.Repeat("a", 257), want: "1 to 256 bytes"},
		"a parenthesis that is not closed": {pattern: `step (\d+`, want: "missing closing )"},
		"a look-behind":                    {pattern: `(?<!x)step`, want: "invalid"},
		"a total without a step":           {pattern: `of (?P<total>\d+)`, want: "requires the group step"},
		"many Unicode classes":             {pattern: strings.Repeat(`\pL`, 5), want: "at most 4 Unicode classes"},
		"a long repetition":                {pattern: `\d{1000}`, want: "too large"},
		"an optional long repetition":      {pattern: `(?:a{0,300}b?){0,2}c`, want: "too large"},
		"nested repetitions":               {pattern: strings.Repeat(`(?:a{30}b){30}`, 15), want: "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(c.pattern)
			switch {
			case c.want == "" && (err != nil || p.String() != c.pattern):
				t.Errorf("pattern %v, error %v", p, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestUnknownGroups checks that reading the names does not change the pattern.
func TestUnknownGroups(t *testing.T) {
	p := mustCompile(t, `(?P<loss>\d+) (?P<step>\d+) (x)`)
	if diff := cmp.Diff([]string{"loss"}, p.UnknownGroups()); diff != "" {
		t.Error(diff)
	}
	if got := p.regexp.SubexpIndex(groupStep); got != p.step {
		t.Errorf("the group step is now at %d", got)
	}
}

// TestRead checks what logs show.
func TestRead(t *testing.T) {
	const pattern = `step (?P<step>[\d.]+)(?:/(?P<total>\d+))?`
	const special = `(?P<stop>Evaluating)|step (?P<step>\d+)(?P<fault>, loss nan)?`
	at := func(seconds int) time.Time { return testTime.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		pattern string // that above if empty
		log     string
		after   time.Time
		want    Progress
	}{
		"an empty log":    {},
		"no line matches": {log: newLog("loading", "compiling")},
		"one line has no rate": {
			log:  newLog("loading", "step 3/10", "checkpoint"),
			want: Progress{Matches: 1, LastTime: at(10), Step: ptr.To(3.0), Total: ptr.To(10.0)},
		},
		"several lines": {
			log: newLog("step 3/10", "checkpoint", "step 5/10"),
			want: Progress{
				Matches: 2, LastTime: at(20), Step: ptr.To(5.0), Total: ptr.To(10.0), Rate: 0.1,
				RemainingSeconds: ptr.To[int64](50),
			},
		},
		"the program stopped on purpose": {
			pattern: special, log: newLog("step 3", "Evaluating", "accuracy 0.5"),
			want: Progress{Matches: 1, LastTime: at(0), Step: ptr.To(3.0), Stopped: true},
		},
		"the program goes on": {
			pattern: special, log: newLog("step 3", "Evaluating", "step 4"),
			want: Progress{Matches: 2, LastTime: at(20), Step: ptr.To(4.0), Rate: 0.05},
		},
		"the rate does not count a pause": {
			pattern: special,
			log:     newLog("step 3", "step 4", "Evaluating", "accuracy 0.5", "step 5", "step 6"),
			want:    Progress{Matches: 4, LastTime: at(50), Step: ptr.To(6.0), Rate: 0.1},
		},
		"a fault does not end a pause": {
			pattern: special, log: newLog("step 3", "step 4", "Evaluating", "step 4, loss nan", "step 5"),
			want: Progress{Matches: 3, LastTime: at(40), Step: ptr.To(5.0), Rate: 0.1, Faulted: true},
		},
		"a line shows a fault": {
			pattern: special, log: newLog("step 3", "step 4, loss nan", "step 5"),
			want: Progress{Matches: 2, LastTime: at(20), Step: ptr.To(5.0), Rate: 0.1, Faulted: true},
		},
		"the last step": {
			log: newLog("step 9/10", "step 10/10"),
			want: Progress{
				Matches: 2, LastTime: at(10), Step: ptr.To(10.0), Total: ptr.To(10.0), Rate: 0.1,
				RemainingSeconds: ptr.To[int64](0),
			},
		},
		"steps without a total": {
			log:  newLog("step 3", "step 4.5"),
			want: Progress{Matches: 2, LastTime: at(10), Step: ptr.To(4.5), Rate: 0.15},
		},
		"the rate is that since the steps started again": {
			log: newLog("step 99/100", "step 1/100", "step 3/100"),
			want: Progress{
				Matches: 3, LastTime: at(20), Step: ptr.To(3.0), Total: ptr.To(100.0), Rate: 0.2,
				RemainingSeconds: ptr.To[int64](485),
			},
		},
		"steps that do not advance": {
			log:  newLog("step 3/10", "step 3/10"),
			want: Progress{Matches: 2, LastTime: at(10), Step: ptr.To(3.0), Total: ptr.To(10.0)},
		},
		"a step beyond the total": {
			log:  newLog("step 9/10", "step 11/10"),
			want: Progress{Matches: 2, LastTime: at(10), Step: ptr.To(11.0), Total: ptr.To(10.0), Rate: 0.2},
		},
		"a pattern without groups": {
			pattern: "epoch", log: newLog("epoch", "", "epoch"),
			want: Progress{Matches: 2, LastTime: at(20), Rate: 0.05},
		},
		"a step that is not a number": {
			pattern: "step (?P<step>.+)", log: newLog("step 3", "step three"),
			want: Progress{Matches: 2, LastTime: at(10)},
		},
		"the last state of a progress bar": {
			log:  newLog("step 1/10\rstep 2/10\r"),
			want: Progress{Matches: 1, LastTime: at(0), Step: ptr.To(2.0), Total: ptr.To(10.0)},
		},
		"a last line that is cut": {
			log:  newLog("step 1") + strings.TrimSuffix(newLog("step 2"), "\n"),
			want: Progress{Matches: 1, LastTime: at(0), Step: ptr.To(1.0)},
		},
		"lines that were read before": {
			log: newLog("step 1", "step 2", "step 3"), after: at(10),
			want: Progress{Matches: 1, LastTime: at(20), Step: ptr.To(3.0)},
		},
		"only the end of a long log": {
			log:  newLog("step 1", strings.Repeat("x", MaxLogBytes), "step 3"),
			want: Progress{Matches: 1, LastTime: at(20), Step: ptr.To(3.0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, pattern)
			if c.pattern != "" {
				p = mustCompile(t, c.pattern)
			}
			if diff := cmp.Diff(c.want, p.Read(c.log, c.after)); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzRead checks that any pattern is rejected or reads any log.
func FuzzRead(f *testing.F) {
	f.Add(`step (?P<step>[\d.]+)(?:/(?P<total>\d+))?`, newLog("step 1/10", "step 2/10"))
	f.Add(`(?i)\pL{3,5}|(x*)*`, newLog("step inf", "step 1e999/-0x1p-9\r\r"))
	f.Fuzz(func(t *testing.T, pattern, log string) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		got := p.Read(log, time.Time{})
		lines := min(strings.Count(log, "\n"), MaxLogBytes/len("2026-03-01T12:00:00Z\n"))
		isRemainingWrong := got.RemainingSeconds != nil && (*got.RemainingSeconds < 0 || got.Rate <= 0)
		if got.Matches < 0 || got.Matches > lines || got.Rate < 0 || isRemainingWrong {
			t.Errorf("%d lines show %+v", lines, got)
		}
	})
}

// BenchmarkRead searches logs of the maximum size by patterns that take long.
func BenchmarkRead(b *testing.B) {
	for name, pattern := range map[string]string{
		"usual":    `step (?P<step>\d+)/(?P<total>\d+)`,
		"anywhere": `.*.*.*(?P<step>\d+)x`,
		"slowest":  `(?:` + strings.Repeat(`.*a?`, 40) + `)(?P<step>x)y`,
		"repeated": `(?:a?){60}a{60}b`,
		"captures": strings.Repeat("(a*)", 63) + "x",
		"folded":   `(?i)` + `(?:\pL?){60}1`,
	} {
		p := mustCompile(b, pattern)
		for shape, line := range map[string]string{"short": strings.Repeat("a", 40), "long": strings.Repeat("a", 60_000)} {
			log := strings.Repeat(testTime.Format(time.RFC3339Nano)+" "+line+"\n", MaxLogBytes/(len(line)+22))
			b.Run(name+"/"+shape, func(b *testing.B) {
				for b.Loop() {
					p.Read(log, time.Time{})
				}
			})
		}
	}
}

// BenchmarkCompile compiles patterns that take long.
func BenchmarkCompile(b *testing.B) {
	for name, pattern := range map[string]string{
		"usual": `step (?P<step>\d+)/(?P<total>\d+)`, "classes": `(?i)(?:\pL\PL\pS\PS){30}`,
		"anchored": `^(?:` + strings.Repeat(`[^a-z]|`, 35) + `x)$`, "captures": strings.Repeat("(a)", 80),
		"rejected": strings.Repeat(`(?:a{30}b){30}`, 15),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = Compile(pattern)
			}
		})
	}
}
