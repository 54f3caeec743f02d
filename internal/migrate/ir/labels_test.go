package ir_test

import (
	"testing"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
)

// TestTranslate checks which label selects the same pods after the migration.
func TestTranslate(t *testing.T) {
	sourceLabels := map[string]ir.SourceLabel{
		"job":      {Meaning: ir.MeaningGang},
		"kept-job": {Meaning: ir.MeaningGang, Preserved: true},
		"role":     {Meaning: ir.MeaningRole}, "kept-role": {Meaning: ir.MeaningRole, Preserved: true},
		"created-by": {Preserved: true, ValuePrefix: "js-"},
		"uid":        {},
		"system":     {ValuePrefix: "example.com"},
	}
	role := func(name string, pods int32, former string) ir.Role {
		r := newRole(name, pods)
		r.SourceNames = ir.SourceNames{Role: former}
		return r
	}
	equal := []ir.Role{role("master", 1, "master"), role("worker", 3, "worker")}
	different := []ir.Role{role("chief", 1, "Master"), role("worker", 2, "worker")}
	tests := map[string]struct {
		roles       []ir.Role
		homogeneous bool
		key, value  string
		want        string // key=value, or empty if there is none
	}{
		"name of the job": {
			roles: different, key: "job", value: "js", want: "rollcall.training/gang=js"},
		"name of another job": {
			roles: different, key: "job", value: "other", want: "rollcall.training/gang=other"},
		"name of the job in any value": {
			roles: different, key: "job", want: "rollcall.training/gang="},
		"name of the job that Rollcall writes too": {
			roles: different, key: "kept-job", value: "js", want: "kept-job=js"},
		"role with its own workload": {
			roles: different, key: "role", value: "worker", want: "rollcall.training/role=worker"},
		"role with a new name": {
			roles: different, key: "kept-role", value: "master", want: "rollcall.training/role=chief"},
		"role with the same name": {
			roles: different, key: "kept-role", value: "worker", want: "kept-role=worker"},
		"role in any value": {
			roles: different, key: "role"},
		"role of one pod in a shared workload": {
			roles: equal, homogeneous: true, key: "role", value: "master"},
		"role of several pods in a shared workload": {
			roles: equal, homogeneous: true, key: "kept-role", value: "worker"},
		"role that does not exist": {
			roles: different, key: "role", value: "ps"},
		"Job of the former system": {
			roles: different, key: "created-by", value: "js-m-0"},
		"Job of others": {
			roles: different, key: "created-by", value: "other", want: "created-by=other"},
		"any Job": {
			roles: different, key: "created-by"},
		"label without a counterpart": {
			roles: different, key: "uid", value: "1"},
		"label of the system": {
			roles: different, key: "system", value: "example.com"},
		"label of the user with the key of the system's": {
			roles: different, key: "system", value: "mine", want: "system=mine"},
		"label of the user": {
			roles: different, key: "app", value: "js", want: "app=js"},
	}
	frameworks := gang.Frameworks{{Name: "pytorch", DefaultRole: "worker"}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := ir.Gang{Name: "js", Framework: "pytorch", Frameworks: frameworks,
				Roles: tt.roles, Homogeneous: tt.homogeneous, SourceLabels: sourceLabels}
			key, value, ok := b.LabelMapping().Translate(tt.key, tt.value)
			got := key + "=" + value
			if !ok {
				got = ""
			}
			if got != tt.want {
				t.Errorf("%s=%s is translated to %q, want %q", tt.key, tt.value, got, tt.want)
			}
		})
	}
}
