package rendezvous

import (
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/plan"
)

// Fixes for a user who sets an injected variable.
const (
	FixPort = "choose the port with the annotation " + gang.AnnotationPort
	FixSize = "change the number of ranks of the workload"
)

// UnbufferedEnv returns the variable that disables the output buffer of Python. Otherwise the log of a rank
// that hangs would not contain its last lines.
func UnbufferedEnv() plan.Env {
	return plan.LiteralEnv("PYTHONUNBUFFERED", "1").WithPolicy(plan.Default)
}

// MasterEnv returns the address and the port of rank 0, in variables whose names start with prefix. The
// values are the same on all ranks. Rank 0 resolves its own name with /etc/hosts.
func MasterEnv(g gang.Gang, prefix string) []plan.Env {
	return []plan.Env{
		plan.LiteralEnv(prefix+"MASTER_ADDR", g.RankFQDN(0)),
		plan.LiteralEnv(prefix+"MASTER_PORT", strconv.Itoa(int(g.Port))).WithFix(FixPort),
	}
}

// RankEnv returns a variable with the rank of the pod.
func RankEnv(g gang.Gang, name string) plan.Env {
	return plan.FieldEnv(name, plan.PodLabelFieldPath(g.RankLabel))
}

// SizeEnv returns a variable with a number n of ranks.
func SizeEnv(name string, n int64) plan.Env {
	return plan.LiteralEnv(name, strconv.FormatInt(n, 10)).WithFix(FixSize)
}

// GradientBoostingEnv returns the variables for XGBoost and LightGBM. The MASTER_ and WORKER_ variables are
// those of training-operator's XGBoostJob (pkg/controller.v1/xgboost/xgboost.go), which programs of both
// frameworks read. The DMLC_ variables are those of Trainer v2
// (pkg/runtime/framework/plugins/xgboost). Programs pass them to the tracker of XGBoost.
//
// WORKER_ADDRS contains all ranks but the first. A gang of one pod gets no WORKER_ variables.
func GradientBoostingEnv(g gang.Gang) []plan.Env {
	env := slices.Concat(
		[]plan.Env{UnbufferedEnv()},
		MasterEnv(g, ""),
		[]plan.Env{RankEnv(g, "RANK"), SizeEnv("WORLD_SIZE", int64(g.Size))},
	)
	if g.Size > 1 {
		workers := make([]string, 0, g.Size-1)
		for i := range g.Size - 1 {
			workers = append(workers, g.RankFQDN(i+1))
		}
		env = append(env,
			plan.LiteralEnv("WORKER_ADDRS", strings.Join(workers, ",")).WithFix(FixSize),
			plan.LiteralEnv("WORKER_PORT", strconv.Itoa(int(g.Port))).WithFix(FixPort))
	}
	return append(env,
		plan.LiteralEnv("DMLC_TRACKER_URI", g.RankFQDN(0)),
		plan.LiteralEnv("DMLC_TRACKER_PORT", strconv.Itoa(int(g.Port))).WithFix(FixPort),
		SizeEnv("DMLC_NUM_WORKER", int64(g.Size)),
		RankEnv(g, "DMLC_TASK_ID"))
}
