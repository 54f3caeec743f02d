package inspect

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/vet"
)

// newPage returns a page in which every text contains the given text.
func newPage(text string) Page {
	pod := &corev1.Pod{}
	pod.CreationTimestamp = timeAfter(-time.Minute)
	g := Gang{
		Name: text, Namespace: text, Framework: text, Phase: lifecycle.Phase(text), Reason: gang.Reason(text), Message: text,
		CreationTimestamp: testTime.Add(-time.Hour), LastTransitionTime: ptr.To(testTime), MaxRestarts: ptr.To[int32](3),
		Size: 1, Warnings: []string{text},
		FirstFailure: &failure.Failure{Pod: text, Node: text, Container: text, Reason: text, Message: text, Time: testTime},
		Members:      []Member{{Kind: gang.Kind(text), Name: text, Role: text, Size: 1, Missing: true}},
		Ranks: []Rank{{
			State: lifecycle.RankReady, Member: text, Role: text, Pod: text, Node: text, Reason: text, Object: pod,
		}},
		Events: []Event{
			{Time: testTime, Type: text, Reason: text, Object: text, Message: text, Count: 2},
			{Time: testTime.Add(-time.Minute), Reason: string(gang.ReasonGangRestarting), Message: text},
		},
		state: lifecycle.State{Seconds: lifecycle.Seconds{Starting: 5, Ran: 10}},
	}
	return Page{
		Gang: g, Now: testTime, Version: text,
		Additions: []PageAdditions{{Member: text, Problem: text, Additions: []injectors.Explanation{{
			Kind: text, Container: text, Name: text, Value: text, Source: text, Reason: text, OtherValue: text, ChangedBy: text,
		}}}},
		Findings: []vet.Finding{{
			Code: vet.Code(text), Severity: vet.Severity(text), Object: text, Field: text, Message: text, Fix: text,
		}},
	}
}

func writePage(t *testing.T, p Page) string {
	t.Helper()
	var out strings.Builder
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var (
	attributeValue = regexp.MustCompile(`="[^"]*"`)
	htmlTag        = regexp.MustCompile(`<[^>]*>`)
)

// listTags returns the tags of a document with the names of their attributes.
func listTags(document string) []string {
	return htmlTag.FindAllString(attributeValue.ReplaceAllString(document, ""), -1)
}

// TestAttackReportPage checks that no name and no message of a gang changes the structure of its report, or the order
// in which a reader sees its characters.
func TestAttackReportPage(t *testing.T) {
	want := listTags(writePage(t, newPage("harmless")))
	if len(want) < 100 {
		t.Fatalf("the page has only %d tags", len(want))
	}
	for _, hostile := range []string{
		`<script>alert(1)</script>`,
		`"><img src=x onerror=alert(1)>`,
		`' onmouseover='alert(1)`,
		`</style><style>*{display:none}`,
		`</title></pre></td></table><h1>Succeeded</h1><!--`,
		`javascript:alert(1)//{{.Gang}}`,
		"\u202edeliaf\u202c \u2066\x1b[2J\x00",
	} {
		document := writePage(t, newPage(hostile))
		if diff := cmp.Diff(want, listTags(document)); diff != "" {
			t.Errorf("%q changes the tags (-want +got):\n%s", hostile, diff)
		}
		if strings.ContainsAny(document, "\u202e\u202c\u2066\x1b\x00") {
			t.Errorf("the page of %q contains control characters", hostile)
		}
	}
	// The whole page, with the styles, contains nothing that a browser would load or run.
	for _, forbidden := range []string{"<script", "<link", "<img", "<iframe", "url(", "@import", "http://", "https://"} {
		if strings.Contains(writePage(t, newPage("harmless")), forbidden) {
			t.Errorf("the page contains %s", forbidden)
		}
	}
}

// TestPageSize checks that a page of many ranks that all differ has a bounded size.
func TestPageSize(t *testing.T) {
	for ranks, limit := range map[int]int{4: 30_000, 2000: 150_000, 10_000: 500_000} {
		p := newPage("harmless")
		first := p.Gang.Ranks[0]
		p.Gang.Ranks, p.Gang.Members[0].Size = nil, int32(ranks)
		for i := range ranks {
			rank := first
			rank.Rank, rank.State, rank.Node = int32(i), rankStates[i%len(rankStates)], fmt.Sprintf("node-%d", i)
			rank.Reason = strings.Repeat("x", 300)
			p.Gang.Ranks = append(p.Gang.Ranks, rank)
		}
		document := writePage(t, p)
		t.Logf("%d ranks: %d bytes", ranks, len(document))
		if len(document) > limit {
			t.Errorf("the page of %d ranks has %d bytes, want at most %d", ranks, len(document), limit)
		}
	}
}

func TestPageRanks(t *testing.T) {
	p := Page{Now: testTime}
	for i := range 100 {
		p.Gang.Ranks = append(p.Gang.Ranks, Rank{Rank: int32(i), State: lifecycle.RankReady, Node: fmt.Sprint("node-", i%3)})
	}
	p.Gang.Ranks[77].State = lifecycle.RankFailed
	got := p.Ranks()
	if n := len(got.Shown); n != maxPageRanks || got.Hidden != 60 || got.Shown[n-1].Rank.Rank != 77 {
		t.Errorf("%d ranks are shown and %d hidden, the last shown is %d", n, got.Hidden, got.Shown[n-1].Rank.Rank)
	}
	nodes := p.Nodes()
	if nodes.Shown[0].Name != "node-2" || len(nodes.Shown) != 3 {
		t.Errorf("nodes %v, want the node of the failed rank first", nodes)
	}
}
