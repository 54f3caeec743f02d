package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is the value of a flag with a closed set of values. It implements pflag.Value.
type choice struct {
	value   *string
	allowed []string
}

// Set sets the value. The error lists the allowed values.
func (c choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return errors.New("use " + joinAlternatives(c.allowed))
	}
	*c.value = value
	return nil
}

// String returns the value.
func (c choice) String() string {
	if c.value == nil { // pflag compares a default with the String of a zero value
		return ""
	}
	return *c.value
}

// Type returns the placeholder of the value in the help.
func (c choice) Type() string { return "string" }

// addChoiceFlag adds a flag that accepts and completes only the allowed values. The current value of
// target is the default. The usage is the purpose of the flag without the values, and shorthand can be
// empty.
func addChoiceFlag(cmd *cobra.Command, target *string, name, shorthand, usage string, allowed ...string) {
	cmd.Flags().VarP(choice{value: target, allowed: allowed}, name, shorthand, usage+": "+joinAlternatives(allowed))
	completeFlag(cmd, name, allowed)
}

// completeFlag makes the shell complete a flag with the given values.
func completeFlag(cmd *cobra.Command, name string, values []string) {
	mustComplete(cmd, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// mustComplete sets the completion of a flag that exists.
func mustComplete(cmd *cobra.Command, name string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err)
	}
}

// mustMarkFilename makes the shell complete a flag that exists with files of the given extensions, or
// with all files.
func mustMarkFilename(cmd *cobra.Command, name string, extensions ...string) {
	if err := cmd.MarkFlagFilename(name, extensions...); err != nil {
		panic(err)
	}
}

// joinAlternatives returns "yaml or json", or "text, json or sarif".
func joinAlternatives(values []string) string {
	last := len(values) - 1
	if last < 1 {
		return strings.Join(values, "")
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}
