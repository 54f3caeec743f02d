package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/buildinfo"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/vet"
)

// reportOptions are the flags of rollcall report.
type reportOptions struct {
	cluster clusterFlags
	output  string
	clock   clock.PassiveClock
}

func newReportCommand() *cobra.Command {
	o := reportOptions{clock: clock.RealClock{}}
	cmd := newCommand("report", func(cmd *cobra.Command, args []string) error {
		if o.output == "" {
			return newUsageError(errors.New("--output: required; use a file such as report.html, or - for standard output"))
		}
		reader, err := o.cluster.newReader()
		if err != nil {
			return err
		}
		return o.report(cmd.Context(), reader, args[0], cmd.OutOrStdout())
	})
	cmd.Args = requireOneArgument
	cmd.ValidArgsFunction = o.cluster.completeGang
	o.cluster.addFlags(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "file of the report, or - for standard output")
	mustMarkFilename(cmd, "output", "html")
	return cmd
}

// report writes the report about a gang. It replaces an existing file only if the report is complete.
func (o *reportOptions) report(ctx context.Context, reader inspect.Reader, name string, stdout io.Writer) error {
	reader.MaxEvents = inspect.MaxPageEvents
	g, err := reader.GetGang(ctx, name)
	if err != nil {
		return err
	}
	reader.AddDetails(ctx, &g)
	page := inspect.Page{Gang: g, Now: o.clock.Now(), Version: buildinfo.Version()}
	var docs []*manifest.Document
	for _, m := range g.Members {
		if m.Workload == nil {
			continue
		}
		page.Additions = append(page.Additions, explainMember(reader.Engine, m))
		doc, err := newClusterDocument(m.Workload.GroupKind().WithVersion("v1"), m.Workload.Object(), m.Workload.Meta())
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	page.Findings = vet.Run(docs, nil, vet.Options{
		Engine: reader.Engine, Namespace: g.Namespace, Now: page.Now, Admitted: true,
	}).Findings
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		return err
	}
	if o.output == "-" {
		return writeOutput(stdout, text.Bytes())
	}
	if err := os.WriteFile(o.output, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	fmt.Fprintf(stdout, "%s: %s\n", o.output, gang.FormatCount(text.Len(), "byte"))
	return nil
}

// explainMember returns what admission added to a member.
func explainMember(engine *injectors.Engine, m inspect.Member) inspect.PageAdditions {
	out := inspect.PageAdditions{Member: string(m.Kind) + " " + m.Name}
	_, additions, err := engine.ExplainAdmitted(*m.Workload)
	if err != nil {
		out.Problem = "This version cannot explain the workload: " + strings.Join(injectors.DenialCauses(err), "; ")
	}
	out.Additions = additions
	return out
}
