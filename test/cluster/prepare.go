package cluster

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Tool is a program that some tests and users of a cluster need in addition to its components.
type Tool struct{ component component }

var (
	// Helm is the program that Cluster.Helm runs.
	Helm = Tool{helmComponent}
	// Kueue is the program that Cluster.StartKueue starts.
	Kueue = Tool{kueueOperator.component}
)

// Build builds all programs and images of a cluster with the given options, and tools, without
// starting anything. The first call takes minutes and reports its progress to Options.Progress.
// Call Build before tests, because their output is shown only when they end.
func Build(ctx context.Context, options Options, tools ...Tool) error {
	options, err := options.completeAndValidate()
	if err != nil {
		return err
	}
	c := &Cluster{options: options, progress: newProgress(options.Progress)}
	return c.prepare(ctx, tools)
}

// prepare builds or installs everything that the cluster needs. Compilers use all cores, and
// packages wait for the network, so both are prepared in parallel. Builds run one after the other,
// because each uses packages that the build before compiled.
func (c *Cluster) prepare(ctx context.Context, tools []Tool) error {
	built := make([]ImageSource, len(c.options.Images))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := c.buildPrograms(ctx, tools); err != nil {
			return err
		}
		return c.buildImages(ctx, built, isBinary)
	})
	group.Go(func() error {
		if c.options.Nodes == Real {
			if err := installMissingPrograms(ctx, c.progress, nodePrograms); err != nil {
				return err
			}
		}
		return c.buildImages(ctx, built, func(source ImageSource) bool { return !isBinary(source) })
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if c.options.Nodes == Real {
		c.options.Images = built
	}
	return nil
}

// buildPrograms builds the Go programs of the cluster, and tools.
func (c *Cluster) buildPrograms(ctx context.Context, tools []Tool) error {
	var err error
	if c.binaries.assets, err = c.findAssets(ctx); err != nil {
		return err
	}
	if c.binaries.assets == "" {
		if c.binaries.kubernetes, err = c.options.Release.component().ensureBinary(ctx, c.progress); err != nil {
			return err
		}
	}
	switch c.options.Nodes {
	case Kwok:
		if c.binaries.kwok, err = kwokComponent.ensureBinary(ctx, c.progress); err != nil {
			return err
		}
	case Real:
		if c.binaries.coredns, err = corednsComponent.ensureBinary(ctx, c.progress); err != nil {
			return err
		}
	}
	for _, tool := range tools {
		if _, err := tool.component.ensureBinary(ctx, c.progress); err != nil {
			return err
		}
	}
	return nil
}

func isBinary(source ImageSource) bool {
	_, ok := source.(Binary)
	return ok
}

// buildImages builds the selected images of the options and stores them in built, by index.
func (c *Cluster) buildImages(ctx context.Context, built []ImageSource, selects func(ImageSource) bool) error {
	for i, source := range c.options.Images {
		if c.options.Nodes != Real || !selects(source) {
			continue
		}
		image, err := source.Build(ctx, c.progress)
		if err != nil {
			return err
		}
		built[i] = image
	}
	return nil
}
