package blueprint_test

import (
	"testing"

	"rollcall.training/migrate/blueprint"
)

// TestNow: which label tells the same pods now.
func TestNow(t *testing.T) {
	marks := map[string]blueprint.Mark{
		"job": {Says: blueprint.SaysGang}, "kept-job": {Says: blueprint.SaysGang, Kept: true},
		"part": {Says: blueprint.SaysRole}, "kept-part": {Says: blueprint.SaysRole, Kept: true},
		"index": {Says: blueprint.SaysIndex}, "made-by": {Says: blueprint.SaysWorkload}, "uid": {},
	}
	part := func(name string, pods int32, former string, workloads ...string) blueprint.Role {
		r := role(name, pods)
		r.Former = blueprint.Former{Part: former, Workloads: workloads}
		return r
	}
	alike := []blueprint.Role{part("master", 1, "master"), part("worker", 3, "worker")}
	apart := []blueprint.Role{part("chief", 1, "Master", "js-m-0"), part("worker", 2, "worker", "js-w-0", "js-w-1")}
	serving := []blueprint.Role{part("worker", 2, "worker", "js-w-0")}
	serving[0].Set = true
	tests := []struct {
		reason     string
		roles      []blueprint.Role
		one        bool
		key, value string
		want       string // key=value; empty for none
	}{
		{"the job's name is the gang's", apart, false, "job", "js", "rollcall.training/gang=js"},
		{"that of another job is, too", apart, false, "job", "other", "rollcall.training/gang=other"},
		{"Rollcall writes it", apart, false, "kept-job", "js", "kept-job=js"},
		{"a part of its own", apart, false, "part", "worker", "rollcall.training/role=worker"},
		{"that is called otherwise now", apart, false, "kept-part", "master", "rollcall.training/role=chief"},
		{"that is called the same", apart, false, "kept-part", "worker", "kept-part=worker"},
		{"one pod of a workload that stands for all", alike, true, "part", "master", "batch.kubernetes.io/job-completion-index=0"},
		{"several of them", alike, true, "kept-part", "worker", ""},
		{"a part that is not there", apart, false, "part", "ps", ""},
		{"an index within its part", apart, false, "index", "1", "batch.kubernetes.io/job-completion-index=1"},
		{"of a StatefulSet", serving, false, "index", "1", "apps.kubernetes.io/pod-index=1"},
		{"in a workload that counts through all parts", alike, true, "index", "1", ""},
		{"the one Job of a part", apart, false, "made-by", "js-m-0", "made-by=js-chief"},
		{"one of several that are one now", apart, false, "made-by", "js-w-1", ""},
		{"a Job that is a StatefulSet now", serving, false, "made-by", "js-w-0", "rollcall.training/role=worker"},
		{"a Job of somebody else's", apart, false, "made-by", "other", "made-by=other"},
		{"what nothing stands for", apart, false, "uid", "1", ""},
		{"plain Jobs are no gang", nil, false, "job", "js", ""},
		{"and have no parts", nil, false, "index", "1", ""},
		{"a label of the user's", apart, false, "app", "js", "app=js"},
	}
	for _, tt := range tests {
		b := blueprint.Blueprint{Name: "js", Roles: tt.roles, OneKind: tt.one, Marks: marks, Alone: func(string) string { return "worker" }}
		key, value, ok := b.Selection().Now(tt.key, tt.value)
		got := key + "=" + value
		if !ok {
			got = ""
		}
		if got != tt.want {
			t.Errorf("%s: %s=%s is %q now, want %q", tt.reason, tt.key, tt.value, got, tt.want)
		}
	}
}
