// Package source reads manifests of other systems and records what happens to each field.
//
// # The idea
//
// A migration that drops a field without a report is worse than no migration. A reader therefore
// accesses the manifest through [Field], which knows its path, and records the outcome of each
// field that it reads: [Field.MarkPreserved], [Field.MarkChanged] or [Field.MarkDropped]. At the
// end, [Recorder.ReportUnread] finds the values without an outcome and records them as dropped.
// Fields that a reader does not know, for example newer or misspelled fields, are thereby reported
// without code of their own.
//
// Values of the wrong type are errors of the manifest: [Recorder.Errors].
//
// An [Object] is a manifest to be migrated. Its [Context] holds what the reader has to know in
// addition to the manifest.
package source
