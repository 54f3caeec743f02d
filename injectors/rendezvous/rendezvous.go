package rendezvous

import (
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// UnbufferedEnv returns the variable that disables the output buffer of Python. Otherwise the log of a rank
// that hangs would not contain its last lines.
func UnbufferedEnv() plan.Env {
	return plan.LiteralEnv("PYTHONUNBUFFERED", "1").WithPolicy(plan.Suggest).WithMeaning(plan.Switch)
}

// MasterEnv returns the address and the port of rank 0, in variables whose names start with prefix. The
// values are the same on all ranks. Rank 0 resolves its own name with /etc/hosts.
func MasterEnv(g gang.Gang, prefix string) []plan.Env {
	return []plan.Env{
		plan.LiteralEnv(prefix+"MASTER_ADDR", g.RankFQDN(0)).WithMeaning(plan.Address),
		PortEnv(g, prefix+"MASTER_PORT"),
	}
}

// RankEnv returns a variable with the rank of the pod.
func RankEnv(g gang.Gang, name string) plan.Env {
	return plan.FieldEnv(name, plan.PodLabelFieldPath(g.RankLabel)).WithMeaning(plan.Rank)
}

// PortEnv returns a variable with the port of the rendezvous.
func PortEnv(g gang.Gang, name string) plan.Env {
	return plan.LiteralEnv(name, strconv.Itoa(int(g.Port))).WithMeaning(plan.Port)
}

// SizeEnv returns a variable with the number of pods of the gang.
func SizeEnv(g gang.Gang, name string) plan.Env {
	return plan.LiteralEnv(name, strconv.Itoa(int(g.Size))).WithMeaning(plan.PodCount)
}

// GradientBoostingEnv returns the variables for XGBoost and LightGBM. The MASTER_ variables, RANK and
// WORLD_SIZE are those of training-operator's XGBoostJob (pkg/controller.v1/xgboost/xgboost.go), which
// programs of both frameworks read. The DMLC_ variables are those of Trainer v2
// (pkg/runtime/framework/plugins/xgboost). Programs pass them to the tracker of XGBoost.
func GradientBoostingEnv(g gang.Gang) []plan.Env {
	return slices.Concat(
		[]plan.Env{UnbufferedEnv()},
		MasterEnv(g, ""),
		[]plan.Env{
			RankEnv(g, "RANK"),
			SizeEnv(g, "WORLD_SIZE"),
			plan.LiteralEnv("DMLC_TRACKER_URI", g.RankFQDN(0)).WithMeaning(plan.Address),
			PortEnv(g, "DMLC_TRACKER_PORT"),
			SizeEnv(g, "DMLC_NUM_WORKER"),
			RankEnv(g, "DMLC_TASK_ID"),
		})
}

// WorkerEnv returns WORKER_ADDRS and WORKER_PORT of training-operator's XGBoostJob. WORKER_ADDRS contains
// all ranks but the first. The result is nil for a gang of one pod.
func WorkerEnv(g gang.Gang) []plan.Env {
	if g.Size == 1 {
		return nil
	}
	workers := make([]string, 0, g.Size-1)
	for i := range g.Size - 1 {
		workers = append(workers, g.RankFQDN(i+1))
	}
	return []plan.Env{
		plan.LiteralEnv("WORKER_ADDRS", strings.Join(workers, ",")),
		PortEnv(g, "WORKER_PORT"),
	}
}
