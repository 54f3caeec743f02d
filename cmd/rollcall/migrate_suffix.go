package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
)

// maxKeptNames limits the names in a warning.
const maxKeptNames = 5

const keptNameWarning = "kubectl apply changes the objects of the former jobs, and kubectl delete -f deletes them; " +
	"remove them from the output"

// reportKeptNames returns a report for each object of the output that is also in the input, although the suffix was to
// give the output other names.
func (o *migrateOptions) reportKeptNames(input, output []*manifest.Document) []migrate.Report {
	if o.nameSuffix == "" {
		return nil
	}
	former := sets.Set[string]{}
	for _, object := range manifest.ListObjects(input) {
		former.Insert(object.APIGroup() + " " + migrate.DescribeObject(object))
	}
	var reports []migrate.Report
	for _, object := range manifest.ListObjects(output) {
		name := migrate.DescribeObject(object)
		if object.Name != "" && former.Has(object.APIGroup()+" "+name) {
			reports = append(reports, migrate.Report{
				Source: object.Document.Source, Document: object.Document.Number, Object: name, Passthrough: true,
				Warnings: []string{"--name-suffix does not rename it: " + keptNameWarning},
			})
		}
	}
	return reports
}

// listNames returns the names of the objects of reports.
func listNames(reports []migrate.Report) []string {
	var names []string
	for _, r := range reports {
		names = append(names, r.Object)
	}
	return names
}

// describeKeptNames returns the warning about objects that the suffix does not rename.
func describeKeptNames(reports []migrate.Report) string {
	names, rest := listNames(reports), ""
	if more := len(names) - maxKeptNames; more > 0 {
		names, rest = names[:maxKeptNames], fmt.Sprintf(" and %d more", more)
	}
	return "warning: --name-suffix does not rename " + strings.Join(names, ", ") + rest + ": " + keptNameWarning
}
