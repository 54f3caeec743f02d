package main

import (
	"bytes"
	"testing"
)

func TestWrapLines(t *testing.T) {
	const text = "job.yaml: job/train\n" +
		"  error  Denied  line 7, spec.template.spec.containers[0]\n" +
		"         Invalid value: the rank is a name, but a rank is a number\n\n" +
		"a 0123456789012345678901234567890123456789012345678901234567890123456789 b\n"
	const want = "job.yaml: job/train\n" +
		"  error  Denied  line 7,\n" +
		"  spec.template.spec.containers[0]\n" +
		"         Invalid value: the rank is a\n" +
		"         name, but a rank is a number\n\n" +
		"a\n0123456789012345678901234567890123456789012345678901234567890123456789\nb\n"
	var out bytes.Buffer
	n, err := lineWrapper{&out, 40}.Write([]byte(text))
	if err != nil || n != len(text) || out.String() != want {
		t.Errorf("%d bytes, error %v, lines:\n%s", n, err, out.String())
	}
	if got := wrapForTerminal(&out); got != &out {
		t.Error("the lines of a file are wrapped")
	}
}
