// Package wait polls for conditions of a cluster in tests.
//
//	wait.For(t, "the pod to be ready", func(ctx context.Context) error { ... })
package wait
