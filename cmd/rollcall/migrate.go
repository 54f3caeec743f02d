package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// Exit codes of rollcall migrate.
const (
	// exitDropped means that all objects were migrated, but a field has no equivalent, or a gang does
	// not train yet.
	exitDropped = 1
	// exitNotMigrated means that an object or a document could not be migrated, or that the command
	// is invalid.
	exitNotMigrated = exitUsage
)

// migrateOptions are the flags of rollcall migrate.
type migrateOptions struct {
	files, runtimes       []string
	fromCluster           bool
	cluster               clusterFlags
	clusterDomain, output string
	gangScheduler         string
	framework, nameSuffix string
	require, verbose      bool
	summary               bool
	jobsOnly              bool
	written               outputFlags
}

func newMigrateCommand() *cobra.Command {
	o := &migrateOptions{output: outputYAML}
	cmd := newCommand("migrate", o.runMigrate)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.fromCluster {
			return nil
		}
		return rejectFileArguments(cmd, args)
	}
	o.addFlags(cmd)
	return cmd
}

func (o *migrateOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	addFilenameFlag(cmd, &o.files, "filename", "f", filenameUsage)
	f.BoolVar(&o.fromCluster, "from-cluster", false,
		"jobs of a cluster instead of files; all jobs, or those of the given kinds and names")
	o.cluster.addFlags(cmd)
	o.cluster.addAllNamespacesFlag(f, "jobs")
	addFilenameFlag(cmd, &o.runtimes, "runtimes", "",
		"file or directory of the TrainingRuntimes that TrainJobs refer to; repeatable")
	f.StringVar(&o.clusterDomain, "cluster-domain", gang.DefaultClusterDomain, "DNS domain of the cluster")
	addChoiceFlag(cmd, &o.output, "output", "o", "output format of manifests and report", outputYAML, outputJSON)
	addChoiceFlag(cmd, &o.gangScheduler, "gang-scheduler", "", "gang scheduler of the cluster (default: none)",
		string(source.SchedulerVolcano), string(source.SchedulerCoscheduling))
	addChoiceFlag(cmd, &o.framework, "framework", "", "framework of jobs that do not specify one, such as JobSets",
		injectors.Builtin().Frameworks().Names()...)
	f.StringVar(&o.nameSuffix, "name-suffix", "", "suffix of new names, such as -new, to run the result next to the jobs")
	f.BoolVar(&o.jobsOnly, "jobs-only", false, "Jobs instead of StatefulSets, for MPI workers and parameter servers")
	f.BoolVar(&o.summary, "summary", false, "number of objects by kind and outcome instead of objects and report")
	o.written.addFlags(cmd)
	f.BoolVar(&o.require, "require", false, "failure if no object can be migrated")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "preserved fields in the report")
}

// nameSuffixPattern matches what the name of a job can end with.
var nameSuffixPattern = regexp.MustCompile(`^[a-z0-9-]*[a-z0-9]$`)

// validateFlags returns an error for flags and arguments that contradict each other.
func (o *migrateOptions) validateFlags(args []string) error {
	hasName := slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "/") })
	switch {
	case o.fromCluster && len(o.files) > 0:
		return errors.New("--filename and --from-cluster are mutually exclusive; use one of them")
	case !o.fromCluster && len(o.files) == 0:
		return errors.New("--filename or --from-cluster is required")
	case o.cluster.allNamespaces && hasName:
		return errors.New("--all-namespaces: must not be set with the name of a job; use --namespace")
	case slices.Contains(o.runtimes, "-"):
		return errors.New("--runtimes: must be a file or directory, not standard input")
	case o.nameSuffix != "" && !nameSuffixPattern.MatchString(o.nameSuffix):
		return fmt.Errorf("--name-suffix: %q: must contain lower-case letters, digits and dashes, such as -new", o.nameSuffix)
	case o.written.overwrite && o.written.dir == "":
		return errors.New("--overwrite: needs --output-dir")
	}
	return nil
}

func (o *migrateOptions) runMigrate(cmd *cobra.Command, args []string) error {
	if err := o.validateFlags(args); err != nil {
		return newUsageError(err)
	}
	input, err := o.readInput(cmd, args)
	if err != nil {
		return newUsageError(err)
	}
	m := migrate.Migrator{
		Namespace: o.cluster.namespace,
		Config:    gang.Config{ClusterDomain: o.clusterDomain},
		Scheduler: source.Scheduler(o.gangScheduler),
		Framework: o.framework,
		Runtimes:  input.runtimes, NameSuffix: o.nameSuffix, JobsOnly: o.jobsOnly,
	}
	result := m.Migrate(input.docs)
	reports := slices.Concat(result.Reports, input.skipped, reportUnreadable(input.unreadable))
	if err := o.writeResult(cmd, input.docs, result.Documents, reports); err != nil {
		return newUsageError(err)
	}
	outputs := len(result.Documents)
	if o.summary && o.written.dir == "" {
		outputs = 0
	}
	if err := o.outcomeError(reports, outputs); err != nil {
		return err
	}
	return o.checkUnmigrated(cmd.ErrOrStderr(), input.docs, reports)
}

// writeResult writes the objects and the report, or the summary.
func (o *migrateOptions) writeResult(
	cmd *cobra.Command, input, output []*manifest.Document, reports []migrate.Report,
) error {
	switch {
	case o.written.dir != "":
		count, err := o.written.write(o.output, o.files, output)
		if o.output != outputJSON && (err == nil || count > 0) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s written\n", o.written.dir, gang.FormatCount(count, "file"))
		}
		if err != nil {
			return err
		}
	case !o.summary:
		if err := manifest.Write(cmd.OutOrStdout(), manifest.Format(o.output), output); err != nil {
			return err
		}
	}
	kept := o.reportKeptNames(input, output)
	if !o.summary {
		return o.writeReports(cmd.ErrOrStderr(), slices.Concat(reports, kept))
	}
	s := summarize(input, reports)
	for _, r := range kept {
		s.KeptNames = append(s.KeptNames, r.Object)
	}
	if o.output != outputJSON {
		if err := o.writeReports(cmd.ErrOrStderr(), kept); err != nil {
			return err
		}
	}
	return s.print(cmd.OutOrStdout(), o.output)
}

// checkUnmigrated prints a note if no object was migrated. With --require, it returns an error
// instead. In JSON format, standard error contains nothing but JSON.
func (o *migrateOptions) checkUnmigrated(stderr io.Writer, docs []*manifest.Document, reports []migrate.Report) error {
	isMigrated := func(r migrate.Report) bool { return len(r.Outputs) > 0 }
	if slices.ContainsFunc(reports, isMigrated) {
		return nil
	}
	text := "no object can be migrated; the input contains " + describeKinds(docs)
	switch {
	case o.require:
		return o.hideTextInJSON(exitError{error: errors.New("--require: " + text), code: exitDropped})
	case o.output != outputJSON:
		fmt.Fprintln(stderr, "note:", text)
	}
	return nil
}

// describeKinds returns the kinds of all objects, such as "1 ConfigMap, 2 Services".
func describeKinds(docs []*manifest.Document) string {
	var kinds []string
	for _, c := range manifest.CountKinds(manifest.ListObjects(docs)) {
		kinds = append(kinds, c.String())
	}
	return cmp.Or(strings.Join(kinds, ", "), "no object")
}

// migrateInput is the input of a migration.
type migrateInput struct {
	docs, runtimes []*manifest.Document
	// skipped reports the objects and kinds of a cluster that are not migrated, and the reasons.
	skipped []migrate.Report
	// unreadable are the documents of files that could not be read.
	unreadable []*manifest.Error
}

// readInput reads the runtimes, and the jobs from files or from a cluster.
func (o *migrateOptions) readInput(cmd *cobra.Command, args []string) (migrateInput, error) {
	runtimes, unreadableRuntimes, err := readManifests(o.runtimes, nil)
	if err != nil {
		return migrateInput{}, err
	}
	if o.fromCluster {
		found, err := o.cluster.readJobs(cmd.Context(), args)
		found.runtimes, found.unreadable = append(runtimes, found.runtimes...), unreadableRuntimes
		return found, err
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
func (o *migrateOptions) writeReports(out io.Writer, reports []migrate.Report) error {
	if o.output == outputJSON {
		return printJSON(out, append([]migrate.Report{}, reports...), "  ") // not null
	}
	return migrate.WriteText(wrapForTerminal(out), reports, o.verbose)
}

// outcomeError returns an error with the exit code of the migration. outputs is the number of documents
// that were printed or written.
func (o *migrateOptions) outcomeError(reports []migrate.Report, outputs int) error {
	failed, dropped, findings := 0, 0, 0
	for _, report := range reports {
		if report.Failed() {
			failed++
		}
		dropped += report.Count(source.Dropped)
		findings += len(report.Findings)
	}
	switch {
	case failed > 0:
		text := fmt.Sprintf("not migrated: %d", failed)
		if outputs > 0 {
			text += "; everything else was printed or written"
		}
		return o.hideTextInJSON(exitError{error: errors.New(text), code: exitNotMigrated})
	case dropped+findings > 0:
		return o.hideTextInJSON(exitError{code: exitDropped, error: fmt.Errorf(
			"all objects were migrated; fields dropped: %d, findings that prevent training: %d", dropped, findings)})
	}
	return nil
}

// hideTextInJSON removes the text of an error in JSON format, so that standard error contains nothing
// but JSON.
func (o *migrateOptions) hideTextInJSON(err exitError) error {
	if o.output == outputJSON {
		err.error = errors.New("")
	}
	return err
}
