package trainer

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/internal/migrate/jobset"
)

// torchTuneImmutableSettings are settings of torchtune that only the runtime sets (pkg/constants,
// TorchTuneImmutableConfigs).
var torchTuneImmutableSettings = []string{
	"output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file",
}

// completeTorchTuneCommand completes the command "tune run". Like Trainer, it adds the address of the
// rendezvous, and the recipe and configuration that follow from the numbers and arguments
// (pkg/runtime/framework/plugins/torch/torchtune.go).
func (r *reader) completeTorchTuneCommand(j *jobset.ReplicatedJob) {
	command := r.spec.At("trainer", "command")
	c := findContainer(j, containerNode)
	if c == nil || !command.Exists() || !slices.Equal(command.Strings(), []string{"tune", "run"}) {
		return
	}
	gpus, processes := r.countGPUs(j), r.spec.At("trainer", "numProcPerNode").Int32()
	hasOneDevice := j.PodsPerJob == 1 && (processes != nil && *processes == 1 || gpus == 1)
	full := []string{"tune", "run"}
	if j.PodsPerJob > 1 || processes != nil && *processes > 1 || processes == nil && gpus > 1 {
		full = append(full, fmt.Sprintf("--rdzv_endpoint=%s-%s-0-0.%s:%d", r.Gang.Name, jobNode, r.Gang.Name, trainerPort))
	}
	recipe, suffix := selectRecipe(j.PodsPerJob, hasOneDevice, c.Args)
	full = append(full, recipe, "--config", parseModelName(r.spec.At("runtimeRef", "name").String())+suffix)
	for _, word := range r.runtimeCommand(j) {
		key, _, _ := strings.Cut(word, "=")
		if slices.Contains(torchTuneImmutableSettings, key) {
			full = append(full, word)
		}
	}
	c.Command = full
	command.MarkPreserved("command of container " + c.Name +
		", with the recipe and configuration that Trainer would choose")
}

// runtimeCommand returns the command of the runtime, which the TrainJob replaced.
func (r *reader) runtimeCommand(j *jobset.ReplicatedJob) []string {
	for _, c := range j.Source.At("template", "spec", "template", "spec", "containers").Items() {
		if c.Get("name").String() == containerNode {
			return c.Get("command").Strings()
		}
	}
	return nil
}

// selectRecipe returns the recipe of torchtune, and the suffix of its configuration.
func selectRecipe(pods int32, hasOneDevice bool, args []string) (recipe, suffix string) {
	isLoRA := slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "model.lora_attn_modules") })
	isQLoRA := isArgTrue(args, "model.quantize_base") && !isArgTrue(args, "model.use_dora")
	kind, ending := "full_finetune", "full"
	switch {
	case pods > 1:
		return "full_finetune_distributed", "_full_multinode"
	case isQLoRA:
		kind, ending = "lora_finetune", "qlora"
	case isLoRA:
		kind, ending = "lora_finetune", "lora"
	}
	if hasOneDevice {
		return kind + "_single_device", "_" + ending + "_single_device"
	}
	return kind + "_distributed", "_" + ending
}

// isArgTrue reports whether an argument sets the given option to true.
func isArgTrue(args []string, name string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		key, value, ok := strings.Cut(a, "=")
		return ok && strings.Contains(key, name) && strings.EqualFold(strings.TrimSpace(value), "true")
	})
}

// parseModelName returns the model in the name of a runtime: llama3_2/1B for torchtune-llama3.2-1b.
func parseModelName(runtime string) string {
	words := strings.Split(runtime, "-")
	if len(words) != 3 {
		return ""
	}
	return strings.ReplaceAll(words[1], ".", "_") + "/" + strings.ToUpper(words[2])
}
