package vet

import "rollcall.training/manifest/misfit"

func ofInput() []Check {
	return []Check{
		{
			Code: CodeUnreadable, Severity: Error,
			Title: "A document is no valid YAML or JSON",
			Why:   "kubectl refuses the file, and nothing of the document can be checked. A key that stands twice counts too: the last one would win in silence. The exit code is 2.",
			Fix:   "Mend the text on the line that is named.",
		},
		{
			Code: CodeUndecodable, Severity: Error, object: undecodable,
			Title: "A labelled workload has a value of the wrong type",
			Why:   "The API server cannot read it as a Job or StatefulSet, and refuses it.",
			Fix:   "Give the field a value of its type; annotations and variables are text, so numbers in them want quotes.",
		},
		{
			Code: CodeDuplicate, Severity: Warning, object: duplicate,
			Title: "A labelled workload stands twice in one file",
			Why:   "kubectl apply applies both, one after the other: the last one wins, or is refused since a Job's template cannot change. Files of different names are not compared, as overlays repeat names on purpose.",
			Fix:   "Rename one of the two, or take it away.",
		},
	}
}

func undecodable(_ *input, s *subject) []remark {
	if s.unread == nil || s.member == nil {
		return nil
	}
	found := misfit.Of(s.read.Text, s.unread)
	if len(found) == 0 {
		return say("", "%v", s.unread).do("")
	}
	out := make([]remark, len(found))
	for i, m := range found {
		out[i] = remark{field: m.Path, message: m.Message, fix: m.Fix}
	}
	return out
}

func duplicate(in *input, s *subject) []remark {
	first := in.find(s.Kind, s.namespace, s.Name)
	if s.member == nil || s.Name == "" || first == s || first.Document.Source != s.Document.Source {
		return nil
	}
	return say("metadata.name", "line %d has another %s with this name", first.Line("metadata.name"), s.Kind).do("rename one of the two, or take it away")
}
