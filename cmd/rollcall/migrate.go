package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// Exit codes of rollcall migrate.
const (
	// exitLost says that all was migrated, and that some field has no place any more.
	exitLost = 1
	// exitNotMigrated says that some object or document could not be migrated, or that the command was
	// not understood.
	exitNotMigrated = 2
)

// migrateOptions are the flags of rollcall migrate.
type migrateOptions struct {
	files, runtimes    []string
	live               bool
	cluster            clusterFlags
	domain, output     string
	scheduler, aliases string
	framework          string
	verbose            bool
}

func newMigrate() *cobra.Command {
	o := migrateOptions{}
	cmd := &cobra.Command{
		Use:   "migrate (-f FILE | --from-cluster [KIND[/NAME]...])",
		Short: "Turn PyTorchJobs, MPIJobs, TrainJobs and their kin into labelled Jobs",
		Long: `Turn the training jobs of other systems into labelled Jobs and StatefulSets, and
print them with everything else that was in the manifests, unchanged.

It reads Kubeflow's PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob and JAXJob,
TrainJob with its runtimes, JobSet, and Volcano's Job. No cluster is asked, unless
--from-cluster has it read the jobs that live in one; nothing is changed there.

What became of each field is reported on standard error: carried fields mean what
they meant, changed ones mean something else or do it by other means, lost ones
have no place any more. The exit code is 0 when nothing was lost, 1 when
something was, and 2 when something could not be migrated at all; the rest is
printed whatever happens.`,
		Example: `  rollcall migrate -f pytorchjob.yaml | kubectl apply -f -
  rollcall migrate -f manifests/ --runtimes runtimes.yaml -o json >migrated.json
  rollcall migrate --from-cluster -n research pytorchjob/train`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return unusable(err)
			}
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, filesUsage)
	f.BoolVar(&o.live, "from-cluster", false, "read the jobs that live in a cluster: all, or those of the kinds and names given")
	o.cluster.add(f)
	o.cluster.addAll(f)
	f.StringArrayVar(&o.runtimes, "runtimes", nil, "file or directory with TrainingRuntimes that TrainJobs name; may be given several times")
	f.StringVar(&o.domain, "cluster-domain", gang.DefaultClusterDomain, "DNS domain of the cluster")
	f.StringVarP(&o.output, "output", "o", string(manifest.YAML), "format of manifests and report: yaml, with a report in text, or json")
	f.StringVar(&o.scheduler, "gang-scheduler", "", "gang scheduler of the cluster: volcano or coscheduling; without it there is none")
	f.StringVar(&o.framework, "framework", "", "framework of jobs that do not say theirs, such as a JobSet; see rollcall frameworks")
	f.StringVar(&o.aliases, "aliases", string(blueprint.AliasesUsed), "former names of pods that get a Service: used (by some text of the manifests), all or none")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "name the fields that were carried, too")
	return cmd
}

// check refuses flags that do not go together.
func (o migrateOptions) check(args []string) error {
	for _, c := range []struct {
		flag, value string
		allowed     []string
	}{
		{"--output", o.output, []string{string(manifest.YAML), string(manifest.JSON)}},
		{"--framework", o.framework, append([]string{""}, injectors.Builtin().Frameworks().Names()...)},
		{"--gang-scheduler", o.scheduler, []string{"", string(origin.Volcano), string(origin.Coscheduling)}},
		{"--aliases", o.aliases, []string{string(blueprint.AliasesUsed), string(blueprint.AliasesAll), string(blueprint.AliasesNone)}},
	} {
		if !slices.Contains(c.allowed, c.value) {
			words := slices.DeleteFunc(c.allowed, func(w string) bool { return w == "" })
			return fmt.Errorf("unknown value %q of %s: use %s", c.value, c.flag, strings.Join(words, " or "))
		}
	}
	switch {
	case o.live && len(o.files) > 0:
		return errors.New("--filename and --from-cluster cannot be used together: run the command twice")
	case !o.live && len(o.files) == 0:
		return errors.New("nothing to migrate: name files with --filename, or a cluster with --from-cluster")
	case o.cluster.all && slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "/") }):
		return errors.New("a name goes with one namespace: leave out --all-namespaces, or the names")
	case !o.live && len(args) > 0:
		return fmt.Errorf("%q is no flag: name files with --filename; kinds and names go with --from-cluster", args[0])
	}
	return nil
}

func (o migrateOptions) run(cmd *cobra.Command, args []string) error {
	stderr := cmd.ErrOrStderr()
	runtimes, bad, err := readManifests(o.runtimes, nil)
	if err != nil {
		return unusable(err)
	}
	var docs []*manifest.Document
	var left []migrate.Report
	if o.live {
		var found live
		found, err = o.cluster.jobs(cmd.Context(), args)
		docs, runtimes, left = found.jobs, append(runtimes, found.runtimes...), found.left
	} else {
		var more []*manifest.Error
		docs, more, err = readManifests(o.files, cmd.InOrStdin())
		bad = append(more, bad...)
	}
	if err != nil {
		return unusable(err)
	}
	m := migrate.Migrator{
		Namespace: o.cluster.namespace, Config: gang.Config{ClusterDomain: o.domain},
		Scheduler: origin.Scheduler(o.scheduler), Framework: o.framework, Aliases: blueprint.Aliases(o.aliases), Runtimes: runtimes,
	}
	result := m.Migrate(docs)
	if err := manifest.Write(cmd.OutOrStdout(), manifest.Format(o.output), result.Documents); err != nil {
		return err
	}
	result.Reports = slices.Concat(result.Reports, left, unread(bad))
	if err := o.report(stderr, result.Reports); err != nil {
		return err
	}
	return o.verdict(result.Reports)
}

// unread reports what could not be read at all.
func unread(errs []*manifest.Error) []migrate.Report {
	var out []migrate.Report
	for _, err := range errs {
		out = append(out, migrate.Report{Source: err.Source, Document: err.Number, Mistakes: []string{err.Error()}})
	}
	return out
}

func (o migrateOptions) report(out io.Writer, reports []migrate.Report) error {
	if o.output == string(manifest.JSON) {
		return migrate.WriteJSON(out, reports)
	}
	return migrate.WriteText(out, reports, o.verbose)
}

// verdict is the exit code of a migration.
func (o migrateOptions) verdict(reports []migrate.Report) error {
	failed, lost := 0, 0
	for _, r := range reports {
		if r.Failed() {
			failed++
		}
		lost += r.Count(ledger.Lost)
	}
	var err coded
	switch {
	case failed > 0:
		err = coded{error: fmt.Errorf("not migrated: %d; all others are printed", failed), code: exitNotMigrated}
	case lost > 0:
		err = coded{error: fmt.Errorf("all is migrated; fields that were lost: %d", lost), code: exitLost}
	default:
		return nil
	}
	if o.output == string(manifest.JSON) {
		err.error = errors.New("") // the report says it, and nothing but JSON is on standard error
	}
	return err
}
