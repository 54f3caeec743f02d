package trainer

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/migrate/jobset"
)

// tuneFixed are settings of torchtune that the runtime alone decides (pkg/constants,
// TorchTuneImmutableConfigs).
var tuneFixed = []string{"output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file"}

// tune completes the command of torchtune, "tune run", to which the trainer adds where the
// ranks meet, and the recipe and configuration that the numbers and arguments tell
// (pkg/runtime/framework/plugins/torch/torchtune.go).
func (r *reader) tune(j *jobset.Job) {
	command := r.spec.At("trainer", "command")
	c := container(j, containerNode)
	if c == nil || !command.Exists() || !slices.Equal(command.Strings(), []string{"tune", "run"}) {
		return
	}
	old := r.shippedCommand(j)
	gpus, nproc := r.gpus(j), r.spec.At("trainer", "numProcPerNode").Int32()
	single := j.Pods == 1 && (nproc != nil && *nproc == 1 || gpus == 1)
	full := []string{"tune", "run"}
	if j.Pods > 1 || nproc != nil && *nproc > 1 || nproc == nil && gpus > 1 {
		full = append(full, fmt.Sprintf("--rdzv_endpoint=%s-%s-0-0.%s:%d", r.Blueprint.Name, jobNode, r.Blueprint.Name, trainerPort))
	}
	recipe, suffix := recipe(j.Pods, single, c.Args)
	full = append(full, recipe, "--config", model(r.spec.At("runtimeRef", "name").String())+suffix)
	for _, word := range old {
		key, _, _ := strings.Cut(word, "=")
		if slices.Contains(tuneFixed, key) {
			full = append(full, word)
		}
	}
	c.Command = full
	command.Carried("command of container " + c.Name + ", with the recipe and configuration that the trainer would have chosen")
}

// shippedCommand is the command of the runtime, which the TrainJob's took the place of.
func (r *reader) shippedCommand(j *jobset.Job) []string {
	for _, c := range j.Node.At("template", "spec", "template", "spec", "containers").Items() {
		if c.Get("name").String() == containerNode {
			return c.Get("command").Strings()
		}
	}
	return nil
}

// recipe is what torchtune runs, and the ending of its configuration's name.
func recipe(pods int32, single bool, args []string) (recipe, suffix string) {
	lora := slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "model.lora_attn_modules") })
	qlora := truth(args, "model.quantize_base") && !truth(args, "model.use_dora")
	kind, ending := "full_finetune", "full"
	switch {
	case pods > 1:
		return "full_finetune_distributed", "_full_multinode"
	case qlora:
		kind, ending = "lora_finetune", "qlora"
	case lora:
		kind, ending = "lora_finetune", "lora"
	}
	if single {
		return kind + "_single_device", "_" + ending + "_single_device"
	}
	return kind + "_distributed", "_" + ending
}

// truth reports whether an argument sets something to true.
func truth(args []string, name string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		key, value, ok := strings.Cut(a, "=")
		return ok && strings.Contains(key, name) && strings.EqualFold(strings.TrimSpace(value), "true")
	})
}

// model is the model that the name of a runtime tells: torchtune-llama3.2-1b is of
// llama3_2/1B.
func model(runtime string) string {
	words := strings.Split(runtime, "-")
	if len(words) != 3 {
		return ""
	}
	return strings.ReplaceAll(words[1], ".", "_") + "/" + strings.ToUpper(words[2])
}
