// Package tensorflow plans TF_CONFIG for TensorFlow.
//
// # The idea
//
// tf.distribute reads a single variable: a JSON document with the addresses of all tasks and the index of
// the task (tensorflow/python/distribute/cluster_resolver). The addresses are the same for all ranks.
// The index differs, so the document refers to another variable, which the kubelet expands:
//
//	{"cluster":{"worker":["…:2222","…:2222"]},"task":{"type":"worker","index":$(TF_TASK_INDEX)},"environment":"cloud"}
//
// As with TFJob, a gang of one pod gets no TF_CONFIG, because a program with TF_CONFIG waits for other
// tasks.
//
// A gang completes with its chief or master. Without both, it completes with worker 0, which then does the
// work of the chief (training-operator, default successPolicy of TFJob). Rollcall then stops the other
// workers, parameter servers and evaluators. With the annotation success-policy: all, every worker must
// succeed.
package tensorflow
