package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rollcall.training/internal/policy"
)

// claim gives the container of a Job a resource claim in addition to its accelerators, or instead of them.
func claim(accelerators string) []string {
	return []string{"        resources: {limits: {nvidia.com/gpu: 8}}",
		"        resources: {" + accelerators + "claims: [{name: nic}]}\n" +
			"      resourceClaims: [{name: nic, resourceClaimTemplateName: nic}]"}
}

const claimAndGPUs = "limits: {nvidia.com/gpu: 8}, "

// deviceClass replaces the accelerators of a Job by devices of a DeviceClass (KEP-5004).
var deviceClass = []string{"nvidia.com/gpu: 8", "deviceclass.resource.kubernetes.io/gpu.nvidia.com: 8"}

// toMaster turns memberJob into the master of the gang.
var toMaster = []string{"train-worker", "train-master", "role: worker", "role: master", "s: 4", "s: 1", "m: 4", "m: 1"}

// TestUnknownAccelerators verifies that accelerators that nobody knows do not hide those that are known.
func TestUnknownAccelerators(t *testing.T) {
	const limit = "limits: {gpus: {max: 64}}"
	for name, test := range map[string]struct {
		scope    string
		job      string // bigJob by default, with 768 accelerators and a claim
		replace  []string
		findings []string
	}{
		"a limit below the known accelerators": {scope: limit, findings: []string{"enforce gpus"}},
		"a list of numbers below the known accelerators": {
			scope: "limits: {gpus: {in: [8, 64]}}", findings: []string{"enforce gpus"},
		},
		"a list of numbers above the known accelerators": {
			scope: "limits: {gpus: {in: [8, 1024]}}", findings: []string{"unknown gpus"},
		},
		"a rule that no larger number satisfies": {
			scope: "rules: [{name: a, expression: gang.gpus <= 64}]", findings: []string{"enforce a"},
		},
		"a rule with a condition that the known accelerators satisfy": {
			scope:    "rules: [{name: a, when: gang.gpus > 512, expression: has(gang.runtime)}]",
			findings: []string{"enforce a"},
		},
		"a rule that the known accelerators satisfy": {
			scope: "rules: [{name: a, expression: gang.gpus <= 1000}]", findings: []string{"unknown a"},
		},
		"a rule that a larger number satisfies": {
			scope: "rules: [{name: a, expression: gang.gpus >= 1000}]", findings: []string{"unknown a"},
		},
		"a rule about gangs without accelerators": {
			replace:  claim(""),
			scope:    "rules: [{name: a, when: gang.gpus == 0, expression: gang.queue == 'cpu'}]",
			findings: []string{"unknown a"},
		},
		"devices of a class count as a claim": {
			replace:  deviceClass,
			scope:    "rules: [{name: a, when: gang.gpus == 0, expression: gang.queue == 'cpu'}]",
			findings: []string{"unknown a"},
		},
		"devices of a class in a limit": {replace: deviceClass, scope: limit, findings: []string{"unknown gpus"}},
		"a rule that fails for the known accelerators": {
			replace: claim(""), scope: "rules: [{name: a, when: gang.size > 1, expression: 1 / gang.gpus <= 64}]",
			findings: []string{"unknown a"},
		},
		"a rule that no number satisfies for one member": {
			job: memberJob, scope: "rules: [{name: a, expression: gang.gpus <= 16}]", findings: []string{"enforce a"},
		},
		"a rule about checkpoints that another member can save": {
			job:      memberJob,
			scope:    "rules: [{name: a, expression: gang.checkpoints && gang.gpus <= 64}]",
			findings: []string{"unknown a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job, replace := test.job, test.replace
			if job == "" {
				job = bigJob
			}
			if replace == nil {
				replace = claim(claimAndGPUs)
			}
			in := newInput(t, readJob(t, strings.NewReplacer(replace...).Replace(job)))
			p := readPolicy(t, "cluster: {"+test.scope+"}")
			got := describeFindings(p.Judge(in)[0].Findings)
			if rules := p.Judge(in)[0].Rules; len(rules) != 1 && strings.HasPrefix(test.findings[0], "enforce") {
				t.Errorf("rules %v, want the violated rule", rules)
			}
			if diff := cmp.Diff(test.findings, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error("findings (-want +got):\n" + diff)
			}
		})
	}
}

// describeFindings returns the mode and the name of each rule.
func describeFindings(findings []policy.Finding) []string {
	var names []string
	for _, f := range findings {
		mode := string(f.Mode)
		if f.Unknown {
			mode = "unknown"
		}
		names = append(names, mode+" "+strings.TrimPrefix(f.Rule, "cluster/"))
	}
	return names
}

// TestMembers verifies what the members of a gang of one master and four workers know together.
func TestMembers(t *testing.T) {
	const p = "cluster: {limits: {gpus: {max: 32}}, rules: [{name: a, expression: gang.gpus <= 32}]}"
	withoutGPUs := []string{"        resources: {limits: {nvidia.com/gpu: 8}}", "        resources: {}"}
	violated := []string{"enforce a", "enforce gpus"}
	for name, test := range map[string]struct {
		master, worker []string // replacements
		want           []string // findings for each of the two
	}{
		"the accelerators of all members count":    {want: violated},
		"a claim of one member does not hide them": {master: claim(claimAndGPUs), want: violated},
		"a claim instead of accelerators":          {master: claim(""), want: []string{"unknown a", "unknown gpus"}},
		"a master without accelerators":            {master: withoutGPUs},
	} {
		t.Run(name, func(t *testing.T) {
			var in policy.Input
			for _, replace := range [][]string{append(toMaster, test.master...), test.worker} {
				member := newInput(t, readJob(t, strings.NewReplacer(replace...).Replace(memberJob)))
				in.Members = append(in.Members, member.Members...)
			}
			for i, judged := range readPolicy(t, p).Judge(in) {
				if diff := cmp.Diff(test.want, describeFindings(judged.Findings), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("findings of %s (-want +got):\n%s", in.Members[i].Gang.Role, diff)
				}
			}
		})
	}
}

// TestMembersWithoutAccelerators verifies the message for a member that has no accelerators.
func TestMembersWithoutAccelerators(t *testing.T) {
	master := append(toMaster, "        resources: {limits: {nvidia.com/gpu: 8}}", "        resources: {}")
	in := newInput(t, readJob(t, strings.NewReplacer(master...).Replace(memberJob)))
	worker := newInput(t, readJob(t, memberJob))
	in.Members = append(in.Members, worker.Members...)
	findings := readPolicy(t, "cluster: {limits: {gpus: {max: 16}}}").Judge(in)[0].Findings
	const want = "metadata.annotations[rollcall.training/roles]: makes a gang of 32 accelerators, at most 16 are " +
		"allowed; use fewer in the other members (policy cluster/gpus)"
	if len(findings) != 1 || findings[0].String() != want {
		t.Errorf("findings %v, want %s", findings, want)
	}
}
