package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/origin"
)

// migrateOptions are the flags of rollcall migrate.
type migrateOptions struct {
	files     []string
	namespace string
	domain    string
	output    string
	scheduler string
	aliases   string
	framework string
}

func newMigrate() *cobra.Command {
	o := migrateOptions{}
	cmd := &cobra.Command{
		Use:   "migrate -f FILE",
		Short: "Turn PyTorchJobs, MPIJobs, TrainJobs and their kin into labelled Jobs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or directory with manifests, - for standard input; may be given several times")
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the objects that name none")
	f.StringVar(&o.domain, "cluster-domain", gang.DefaultClusterDomain, "DNS domain of the cluster")
	f.StringVarP(&o.output, "output", "o", string(manifest.YAML), "format: yaml or json")
	f.StringVar(&o.scheduler, "gang-scheduler", "", "gang scheduler of the cluster: volcano or coscheduling")
	f.StringVar(&o.framework, "framework", "", "framework of JobSets that do not tell theirs, and of TrainJobs whose runtime names none")
	f.StringVar(&o.aliases, "aliases", string(blueprint.AliasesUsed), "former names of pods that keep resolving: used, all or none")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag is declared above
	}
	return cmd
}

func (o migrateOptions) run(stdin io.Reader, stdout, stderr io.Writer) error {
	docs, err := injectOptions{files: o.files}.read(stdin)
	if err != nil {
		return err
	}
	m := migrate.Migrator{Namespace: o.namespace, Config: gang.Config{ClusterDomain: o.domain},
		Scheduler: origin.Scheduler(o.scheduler), Aliases: blueprint.Aliases(o.aliases), Framework: o.framework}
	result := m.Migrate(docs)
	for _, r := range result.Reports {
		fmt.Fprintf(stderr, "%s -> %v\n", r.Object, r.Into)
		for _, e := range r.Entries {
			fmt.Fprintf(stderr, "  %-8s %s: %s. %s (%s)\n", e.Outcome, e.Path, e.To, e.Reason, e.Do)
		}
		for _, e := range r.Warnings {
			fmt.Fprintln(stderr, "  warning:", e)
		}
		for _, e := range r.Mistakes {
			fmt.Fprintln(stderr, "  mistake:", e)
		}
	}
	return manifest.Write(stdout, manifest.Format(o.output), result.Documents)
}
