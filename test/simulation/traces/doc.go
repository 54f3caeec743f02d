// Package traces runs the same scripts on a real cluster and on the stand-ins of the simulation, and compares what
// the controllers did with a recorded file.
//
// # The idea
//
// The simulation proves something only if its stand-ins do what the Job controller, the StatefulSet controller, the
// taint manager and the API server do. A [Script] is a table of what users, kubelets and Rollcall do to one workload
// whose fields are those that Rollcall injects. Rollcall itself does not run. After each step the controllers
// settle, and the step is recorded: the error of the request, and the changes in the order in which the API server
// stored them.
//
// testdata contains a file for each recorded Kubernetes release. TestTraces of test/integration runs the scripts
// on a real cluster, and its flag -update-traces (make traces) rewrites the file of that release. With -run, it
// rewrites only the selected scripts. TestTraces of test/simulation runs them on the stand-ins.
//
// # What is compared
//
// Recorded are the fields that Rollcall reads. Changes are equivalent if only timing distinguishes them:
//
//   - Requests of one sync for several pods run concurrently. The changes of pods between two changes of a status are
//     therefore ordered by pod.
//   - A controller may observe several pods in one sync or in several. A status that differs from the status before
//     and from the next one only in numbers of pods is left out. The last one remains, after the pods that change
//     before the next status.
//   - After a workload is gone, its controller and the garbage collector write to its pods concurrently. Only the last
//     state of a pod is compared.
//   - Times, names and UIDs are not recorded.
//
// Everything else is exact, for example whether the status with a start time already counts the created pods, and
// whether an index is completed before its pod loses the finalizer.
//
// # Limits
//
// Scripts wait until the controllers are idle, because a real cluster does not repeat races between two writers.
// The random delays of the simulation explore them. The test reports what kubelets would report, so the kubelets of
// the simulation are not compared.
package traces
