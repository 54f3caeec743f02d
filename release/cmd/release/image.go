package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"rollcall.training/release"
)

const imageLong = `Build the image of the manager from this checkout, and push it to a registry, load it
into a local cluster, or write it to a file.

  release image --repository registry.example.com/team/rollcall --push
  release image --load kind
  release image --output manager.tar

The command prints the values for the chart.`

type imageFlags struct {
	repository, tag, platforms, load, output string
	push, insecure, allowUncommitted         bool
}

func newImageCommand() *cobra.Command {
	var f imageFlags
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build the image of the manager",
		Long:  imageLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.repository, "repository", "rollcall.training/manager", "repository of the image, without a tag")
	flags.StringVar(&f.tag, "tag", "", "tag of the image; empty: a version with the commit")
	flags.StringVar(&f.platforms, "platforms", "linux/amd64,linux/arm64", "platforms to push")
	flags.BoolVar(&f.push, "push", false, "push the image to its registry")
	flags.StringVar(&f.load, "load", "", "load the image into a local cluster: kind, k3d or minikube")
	flags.StringVar(&f.output, "output", "",
		"write the image for this machine's architecture to a file, as docker save does")
	flags.BoolVar(&f.insecure, "insecure", false, "push to a registry without TLS")
	flags.BoolVar(&f.allowUncommitted, "allow-uncommitted", false, "build with uncommitted changes")
	return cmd
}

func (f imageFlags) run(ctx context.Context, stdout, progress io.Writer) error {
	if !f.push && f.load == "" && f.output == "" {
		return errors.New("choose one of --push, --load and --output")
	}
	version, err := release.DescribeVersion(ctx, ".")
	if err != nil {
		return err
	}
	source, err := release.ReadSource(ctx, ".", cmp.Or(f.tag, version), f.allowUncommitted)
	if err != nil {
		return err
	}
	platforms := []release.Platform{{OS: "linux", Arch: runtime.GOARCH}}
	if f.push {
		if platforms, err = release.ParsePlatforms(f.platforms); err != nil {
			return err
		}
	}
	images, err := source.BuildManagerImages(ctx, platforms, progress)
	if err != nil {
		return err
	}
	if err := f.publish(ctx, source, images); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "image:\n  repository: %s\n  tag: %s\n", f.repository, source.Version)
	if !f.push {
		return nil
	}
	digest, err := source.BuildIndex(images).Digest()
	if err != nil {
		return fmt.Errorf("computing the digest: %w", err)
	}
	fmt.Fprintf(stdout, "  digest: %s\n", digest)
	return nil
}

// publish pushes, loads and writes the images.
func (f imageFlags) publish(ctx context.Context, source release.Source, images []release.ManagerImage) error {
	reference := f.repository + ":" + source.Version
	local := images[0]
	for _, image := range images {
		if image.Platform.Arch == runtime.GOARCH {
			local = image
		}
	}
	if f.push {
		if err := (release.Registry{Insecure: f.insecure}).PushImages(ctx, reference, source, images); err != nil {
			return err
		}
	}
	if f.load != "" {
		if err := release.LoadImage(ctx, f.load, reference, local.Image); err != nil {
			return err
		}
	}
	if f.output != "" {
		return release.WriteTarball(f.output, reference, local.Image)
	}
	return nil
}
