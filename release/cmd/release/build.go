package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"rollcall.training/release"
)

const buildLong = `Build everything that belongs to a release into one folder, and push the image and the
chart if --push is set.

  release build --version v0.2.0 --repository registry.example.com/rollcall/manager \
    --chart-repository registry.example.com/rollcall/charts/rollcall --push`

// releaseVersion is a version in Semantic Versioning with the prefix v.
var releaseVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

type buildFlags struct {
	release.Options
	version, chartRepository, imagePlatforms, commandPlatforms, signingKey string

	push, insecure, allowUncommitted bool
}

func newBuildCommand() *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build a release",
		Long:  buildLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.version, "version", "", "version of the release, such as v0.2.0")
	flags.StringVar(&f.Repository, "repository", "",
		"repository of the image, such as registry.example.com/rollcall/manager")
	flags.StringVar(&f.chartRepository, "chart-repository", "",
		"repository of the chart, such as registry.example.com/rollcall/charts/rollcall")
	flags.StringVar(&f.DownloadURL, "download-url", "", "URL of the folder from which users download the archives")
	flags.StringVar(&f.Dir, "output", "", "folder to write; empty: dist/VERSION in the root of the repository")
	flags.StringVar(&f.imagePlatforms, "image-platforms", "linux/amd64,linux/arm64", "platforms of the manager")
	flags.StringVar(&f.commandPlatforms, "command-platforms",
		"linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64", "platforms of the command line")
	flags.StringVar(&f.signingKey, "signing-key", "",
		"file with an ECDSA key on P-256 that signs checksums, image and chart; empty: nothing is signed")
	flags.BoolVar(&f.push, "push", false, "push the image and the chart")
	flags.BoolVar(&f.insecure, "insecure", false, "push to a registry without TLS")
	flags.BoolVar(&f.allowUncommitted, "allow-uncommitted", false, "build with uncommitted changes")
	return cmd
}

func (f buildFlags) run(ctx context.Context, progress io.Writer) error {
	if !releaseVersion.MatchString(f.version) {
		return fmt.Errorf("--version %q must be a version such as v0.2.0", f.version)
	}
	if f.Repository == "" {
		return errors.New("--repository is required, because the chart names the image")
	}
	if f.push && f.chartRepository == "" {
		return errors.New("--push needs --chart-repository")
	}
	source, err := release.ReadSource(ctx, ".", f.version, f.allowUncommitted)
	if err != nil {
		return err
	}
	options := f.Options
	options.Progress = progress
	if options.Dir == "" {
		options.Dir = filepath.Join(source.Dir, "dist", f.version)
	}
	if f.signingKey != "" {
		if options.Signer, err = release.ReadSigner(f.signingKey); err != nil {
			return err
		}
	}
	if options.ImagePlatforms, err = release.ParsePlatforms(f.imagePlatforms); err != nil {
		return err
	}
	if options.CommandPlatforms, err = release.ParsePlatforms(f.commandPlatforms); err != nil {
		return err
	}
	built, err := source.WriteRelease(ctx, options)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "wrote %s\n", options.Dir)
	if !f.push {
		return nil
	}
	registry := release.Registry{Insecure: f.insecure, Signer: options.Signer}
	if err := registry.PushImages(ctx, f.Repository+":"+source.Version, source, built.Images); err != nil {
		return err
	}
	return registry.PushChart(ctx, f.chartRepository+":"+built.Chart.Version, source, built.Chart)
}
