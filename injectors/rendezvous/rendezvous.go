package rendezvous

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// What a user does instead of setting a variable by hand.
const (
	FixPort = "choose the port with the annotation " + gang.AnnotationPort
	FixSize = "change the number of ranks of the workload"
)

// Unbuffered makes Python print at once: a rank that hangs would keep its last
// lines to itself.
func Unbuffered() plan.Env {
	return plan.Env{EnvVar: corev1.EnvVar{Name: "PYTHONUNBUFFERED", Value: "1"}, Policy: plan.Default}
}

// Master is where rank 0 listens, on every rank, rank 0 included: a pod finds its
// own complete name in /etc/hosts. The prefix goes before both names.
func Master(g gang.Gang, prefix string) []plan.Env {
	return []plan.Env{
		plan.Value(prefix+"MASTER_ADDR", g.Host(0)),
		plan.Value(prefix+"MASTER_PORT", strconv.Itoa(int(g.Port))).WithFix(FixPort),
	}
}

// Rank is the rank of the pod, under the given name.
func Rank(g gang.Gang, name string) plan.Env {
	return plan.FieldEnv(name, plan.PodLabelField(g.RankLabel))
}

// Size is a number of ranks, under the given name.
func Size(name string, n int64) plan.Env {
	return plan.Value(name, strconv.FormatInt(n, 10)).WithFix(FixSize)
}

// Boosting is what training-operator's XGBoostJob gives its pods
// (pkg/controller.v1/xgboost/xgboost.go), which LightGBM programs read too, and
// what Trainer v2 adds, for programs to pass on to XGBoost's own tracker
// (pkg/runtime/framework/plugins/xgboost).
//
// WORKER_ADDRS names all ranks but the first. A gang of one has no workers, and
// gets neither list nor port.
func Boosting(g gang.Gang) []plan.Env {
	env := slices.Concat(
		[]plan.Env{Unbuffered()},
		Master(g, ""),
		[]plan.Env{Rank(g, "RANK"), Size("WORLD_SIZE", int64(g.Size))},
	)
	if g.Size > 1 {
		workers := make([]string, 0, g.Size-1)
		for i := range g.Size - 1 {
			workers = append(workers, g.Host(i+1))
		}
		env = append(env,
			plan.Value("WORKER_ADDRS", strings.Join(workers, ",")).WithFix(FixSize),
			plan.Value("WORKER_PORT", strconv.Itoa(int(g.Port))).WithFix(FixPort))
	}
	return append(env,
		plan.Value("DMLC_TRACKER_URI", g.Host(0)),
		plan.Value("DMLC_TRACKER_PORT", strconv.Itoa(int(g.Port))).WithFix(FixPort),
		Size("DMLC_NUM_WORKER", int64(g.Size)),
		Rank(g, "DMLC_TASK_ID"))
}
