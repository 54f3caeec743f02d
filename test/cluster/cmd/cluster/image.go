package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/test/cluster"
)

func newImageCommand() *cobra.Command {
	known := strings.Join(slices.Sorted(maps.Keys(cluster.Recipes)), ", ")
	return &cobra.Command{
		Use:   "image [recipe]",
		Short: "Build the image of a recipe and print its name and file, or list the images; recipes:  " + known,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				files, err := cluster.ListImages()
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(files, "\n"))
				return err
			}
			recipe, ok := cluster.Recipes[args[0]]
			if !ok {
				return fmt.Errorf("unknown recipe %q; must be one of: %s", args[0], known)
			}
			image, err := recipe.Build(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), image.Ref, image.Path)
			return err
		},
	}
}

func newLoadImageCommand(target *clusterRef) *cobra.Command {
	return &cobra.Command{
		Use:   "load-image recipe | file image-name",
		Short: "Load an image into a real cluster, from a recipe or from a file of docker save",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := target.attachCluster()
			if err != nil {
				return err
			}
			if c.Nodes() != cluster.Real {
				return fmt.Errorf("cluster %s has nodes of kind %q, which do not use images", c.Name(), c.Nodes())
			}
			var source cluster.ImageSource
			if len(args) == 2 {
				path, err := filepath.Abs(args[0])
				if err != nil {
					return fmt.Errorf("finding the file: %w", err)
				}
				source = cluster.Image{Ref: args[1], Path: path}
			} else {
				recipe, ok := cluster.Recipes[args[0]]
				if !ok {
					return fmt.Errorf("%q is not a recipe; to load a file, add the name of the image", args[0])
				}
				source = recipe
			}
			ref, err := c.LoadImage(cmd.Context(), source)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), ref)
			return err
		},
	}
}
