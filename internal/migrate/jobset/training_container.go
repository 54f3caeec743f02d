package jobset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/migrate/ir"
)

// trainingContainer returns the training container, or nil if there are no containers.
func (j *ReplicatedJob) trainingContainer() *corev1.Container {
	if all := j.podSpec().Containers; len(all) > 0 {
		return &all[max(0, ir.FindContainer(j.podSpec(), j.TrainingContainer))]
	}
	return nil
}

// chooseTrainingContainer sets the training container of a job that has none to the one that Rollcall
// chooses.
func (s *Reader) chooseTrainingContainer(j *ReplicatedJob) {
	if chosen := s.inject(j).TrainingContainers; j.TrainingContainer == "" && len(chosen) > 0 {
		j.TrainingContainer = chosen[0]
	}
}

// moveContainerFirst moves a container to the front. The first of several training containers
// determines the number of processes.
func moveContainerFirst(all []corev1.Container, name string) {
	slices.SortStableFunc(all, func(a, b corev1.Container) int {
		switch {
		case a.Name == name && b.Name != name:
			return -1
		case b.Name == name && a.Name != name:
			return 1
		}
		return 0
	})
}
