package vet

import (
	"encoding/json"
	"maps"
	"slices"
)

// tfConfigVar is the variable from which TensorFlow reads the addresses of all tasks and the task of the pod.
const tfConfigVar = "TF_CONFIG"

// fixForTFConfig is the remedy for a literal value of the variable.
const fixForTFConfig = "remove it, because Rollcall sets it in gangs of the framework that reads it"

// tfConfig is the value of TF_CONFIG.
type tfConfig struct {
	Cluster map[string][]string `json:"cluster"`
	Task    struct {
		Type string `json:"type"`
		// Index is nil without a task.
		Index *int `json:"index"`
	} `json:"task"`
}

// visitTFConfigs calls visit for each literal TF_CONFIG of a container that is valid JSON.
func (w *labeledWorkload) visitTFConfigs(
	c trainingContainer, visit func(field string, config tfConfig, severity Severity),
) {
	w.visitAssignments(c, []string{tfConfigVar}, func(field, _, value string, severity Severity) {
		var config tfConfig
		if json.Unmarshal([]byte(value), &config) == nil {
			visit(field, config, severity)
		}
	})
}

// checkTFConfigHosts reports the first address of each literal TF_CONFIG that belongs to no pod of the gang.
func (r *reporter) checkTFConfigHosts(w *labeledWorkload) {
	for _, c := range w.trainingContainers() {
		w.visitTFConfigs(c, func(field string, config tfConfig, severity Severity) {
			for _, task := range slices.Sorted(maps.Keys(config.Cluster)) {
				for _, address := range config.Cluster[task] {
					if reason := r.explainUnresolvableHost(w, hostOf(address)); reason != "" {
						r.addWithSeverity(severity, field, fixForTFConfig, "%s contains %s, but %s", tfConfigVar, address, reason)
						return
					}
				}
			}
		})
	}
}
