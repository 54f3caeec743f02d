package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// Exit codes of rollcall migrate.
const (
	// exitDropped means that all objects were migrated, but a field has no equivalent.
	exitDropped = 1
	// exitNotMigrated means that an object or a document could not be migrated, or that the command
	// is invalid.
	exitNotMigrated = 2
)

// migrateOptions are the flags of rollcall migrate.
type migrateOptions struct {
	files, runtimes        []string
	fromCluster            bool
	cluster                clusterFlags
	clusterDomain, output  string
	gangScheduler, aliases string
	framework              string
	verbose                bool
}

const migrateLong = `Convert training jobs of other systems to labeled Jobs and StatefulSets. All other
objects of the manifests are printed unchanged.

Supported kinds are PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob and JAXJob of
Kubeflow, TrainJob with its runtimes, JobSet, and Job of Volcano. With --from-cluster,
the command reads jobs from a cluster, but it does not change any object. Without it,
the command does not contact a cluster.

The command writes a report of every field to standard error. An outcome is one of:
  preserved  the field has the same meaning
  changed    the field has another meaning, or the same effect by other means
  dropped    the field has no equivalent

Exit codes:
  0  all objects were migrated, and no field was dropped
  1  all objects were migrated, and at least one field was dropped
  2  an object or document could not be migrated, or the command is invalid; everything
     else is printed`

func newMigrateCommand() *cobra.Command {
	o := migrateOptions{}
	cmd := &cobra.Command{
		Use:   "migrate (-f FILE | --from-cluster [KIND[/NAME]...])",
		Short: "Convert training jobs of other systems to labeled Jobs",
		Long:  migrateLong,
		Example: `  rollcall migrate -f pytorchjob.yaml | kubectl apply -f -
  rollcall migrate -f manifests/ --runtimes runtimes.yaml -o json >migrated.json
  rollcall migrate --from-cluster -n research pytorchjob/train`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validateFlags(args); err != nil {
				return newUsageError(err)
			}
			return o.runMigrate(cmd, args)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return newUsageError(err) })
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *migrateOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.files, "filename", "f", nil, filenameUsage)
	f.BoolVar(&o.fromCluster, "from-cluster", false,
		"jobs of a cluster instead of files; all jobs, or those of the given kinds and names")
	o.cluster.addFlags(f)
	o.cluster.addAllNamespacesFlag(f, "jobs")
	f.StringArrayVar(&o.runtimes, "runtimes", nil,
		"file or directory of the TrainingRuntimes that TrainJobs refer to; repeatable")
	f.StringVar(&o.clusterDomain, "cluster-domain", gang.DefaultClusterDomain, "DNS domain of the cluster")
	f.StringVarP(&o.output, "output", "o", string(manifest.YAML),
		"output format: yaml with a text report, or json with a JSON report")
	f.StringVar(&o.gangScheduler, "gang-scheduler", "",
		"gang scheduler of the cluster: volcano or coscheduling (default: none)")
	f.StringVar(&o.framework, "framework", "",
		"framework of jobs that do not specify one, such as JobSets; rollcall frameworks lists all names")
	f.StringVar(&o.aliases, "aliases", string(source.AliasUsed),
		"former pod names that get a Service: used (names that the manifests contain), all or none")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "preserved fields in the report")
}

// validateFlags returns an error for a flag with an unknown value, and for flags and arguments that
// contradict each other.
func (o migrateOptions) validateFlags(args []string) error {
	schedulers := []string{"", string(source.SchedulerVolcano), string(source.SchedulerCoscheduling)}
	for _, c := range []struct {
		flag, value string
		supported   []string
	}{
		{"--output", o.output, []string{string(manifest.YAML), string(manifest.JSON)}},
		{"--framework", o.framework, append([]string{""}, injectors.Builtin().Frameworks().Names()...)},
		{"--gang-scheduler", o.gangScheduler, schedulers},
		{"--aliases", o.aliases, []string{string(source.AliasUsed), string(source.AliasAll), string(source.AliasNone)}},
	} {
		if !slices.Contains(c.supported, c.value) {
			names := slices.DeleteFunc(c.supported, func(name string) bool { return name == "" })
			return fmt.Errorf("%s: unsupported value %q; use %s", c.flag, c.value, strings.Join(names, " or "))
		}
	}
	hasName := slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "/") })
	switch {
	case o.fromCluster && len(o.files) > 0:
		return errors.New("--filename and --from-cluster are mutually exclusive; use one of them")
	case !o.fromCluster && len(o.files) == 0:
		return errors.New("--filename or --from-cluster is required")
	case o.cluster.allNamespaces && hasName:
		return errors.New("--all-namespaces: must not be set with the name of a job; use --namespace")
	case !o.fromCluster && len(args) > 0:
		return fmt.Errorf("unexpected argument %q; specify files with --filename, or kinds and names with --from-cluster",
			args[0])
	}
	return nil
}

func (o migrateOptions) runMigrate(cmd *cobra.Command, args []string) error {
	input, err := o.readInput(cmd, args)
	if err != nil {
		return newUsageError(err)
	}
	m := migrate.Migrator{
		Namespace: o.cluster.namespace,
		Config:    gang.Config{ClusterDomain: o.clusterDomain},
		Scheduler: source.Scheduler(o.gangScheduler),
		Framework: o.framework,
		Aliases:   source.AliasPolicy(o.aliases),
		Runtimes:  input.runtimes,
	}
	result := m.Migrate(input.docs)
	if err := manifest.Write(cmd.OutOrStdout(), manifest.Format(o.output), result.Documents); err != nil {
		return newUsageError(err)
	}
	reports := slices.Concat(result.Reports, input.skipped, reportUnreadable(input.unreadable))
	if err := o.writeReports(cmd.ErrOrStderr(), reports); err != nil {
		return newUsageError(err)
	}
	return o.outcomeError(reports)
}

// migrateInput is the input of a migration.
type migrateInput struct {
	docs, runtimes []*manifest.Document
	// skipped reports the objects of a cluster that are not migrated.
	skipped []migrate.Report
	// unreadable are the documents of files that could not be read.
	unreadable []*manifest.Error
}

// readInput reads the runtimes, and the jobs from files or from a cluster.
func (o migrateOptions) readInput(cmd *cobra.Command, args []string) (migrateInput, error) {
	runtimes, unreadableRuntimes, err := readManifests(o.runtimes, nil)
	if err != nil {
		return migrateInput{}, err
	}
	if o.fromCluster {
		found, err := o.cluster.readJobs(cmd.Context(), args)
		return migrateInput{
			docs:       found.jobs,
			runtimes:   append(runtimes, found.runtimes...),
			skipped:    found.skipped,
			unreadable: unreadableRuntimes,
		}, err
	}
	docs, unreadable, err := readManifests(o.files, cmd.InOrStdin())
	return migrateInput{docs: docs, runtimes: runtimes, unreadable: append(unreadable, unreadableRuntimes...)}, err
}

// reportUnreadable returns a report for each document that could not be read.
func reportUnreadable(errs []*manifest.Error) []migrate.Report {
	var reports []migrate.Report
	for _, err := range errs {
		reports = append(reports, migrate.Report{
			Source: err.Source, Document: err.Number, Errors: []string{err.Error()},
		})
	}
	return reports
}

// writeReports writes the reports in the format of the output.
func (o migrateOptions) writeReports(out io.Writer, reports []migrate.Report) error {
	if o.output == string(manifest.JSON) {
		return migrate.WriteJSON(out, reports)
	}
	return migrate.WriteText(out, reports, o.verbose)
}

// outcomeError returns an error with the exit code of the migration. In JSON format its text is
// empty, so that standard error contains nothing but JSON.
func (o migrateOptions) outcomeError(reports []migrate.Report) error {
	failed, dropped := 0, 0
	for _, report := range reports {
		if report.Failed() {
			failed++
		}
		dropped += report.Count(source.Dropped)
	}
	var err exitError
	switch {
	case failed > 0:
		err = exitError{error: fmt.Errorf("not migrated: %d; everything else was printed", failed), code: exitNotMigrated}
	case dropped > 0:
		err = exitError{error: fmt.Errorf("all objects were migrated; fields dropped: %d", dropped), code: exitDropped}
	default:
		return nil
	}
	if o.output == string(manifest.JSON) {
		err.error = errors.New("")
	}
	return err
}
