// Package tensorflow gives TensorFlow its TF_CONFIG.
//
// # The idea
//
// tf.distribute reads one variable, a JSON text with every task's address and the
// task's own index (tensorflow/python/distribute/cluster_resolver). The addresses
// are the same for all ranks; the index is the pod's, and stands in the text as a
// reference to a variable before it, which the kubelet replaces:
//
//	{"cluster":{"worker":["…:2222","…:2222"]},"task":{"type":"worker","index":$(TF_TASK_INDEX)},"environment":"cloud"}
//
// A gang of one gets none, as with TFJob: a program that finds TF_CONFIG waits for
// others.
//
// A gang is done when its chief or master is, and without one when worker 0 is, which
// then does the chief's work (training-operator, TFJob's default successPolicy). Other
// workers, parameter servers and evaluators are stopped. The annotation success-policy
// says otherwise: with all, each worker has to end.
package tensorflow
