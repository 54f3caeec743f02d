package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// Values of --output for programs.
const (
	outputJSON = "json"
	outputYAML = "yaml"
)

// requireUsage is the help of the flag --require.
const requireUsage = "failure if no object has the framework label"

// errNoFiles is the error of a command without --filename.
var errNoFiles = errors.New("--filename: required; use - for standard input")

// printObject prints a value as indented JSON, or as a YAML document with the same names.
func printObject(out io.Writer, format string, v any) error {
	if format == outputJSON {
		return printJSON(out, v, "  ")
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("printing YAML: %w", err)
	}
	return writeOutput(out, text)
}

// printJSON prints a value as JSON. An empty indent prints one line.
func printJSON(out io.Writer, v any, indent string) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return nil
}

// errOutput is wrapped by errors of an output, for example because its reader has exited.
var errOutput = errors.New("printing")

func writeOutput(out io.Writer, text []byte) error {
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	return nil
}
