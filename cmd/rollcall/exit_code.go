package main

import "errors"

// exitError is an error with an exit code. If its text is empty, the command has already printed
// the problem, and main prints nothing.
type exitError struct {
	error
	code int
}

// Unwrap returns the error without the exit code.
func (e exitError) Unwrap() error { return e.error }

// newUsageError gives an error of the command, its flags or its input the exit code 2. It returns nil
// for nil.
func newUsageError(err error) error {
	if err == nil {
		return nil
	}
	return exitError{error: err, code: 2}
}

// exitCode returns the exit code of an error: that of an [exitError] in its chain, or 1.
func exitCode(err error) int {
	var e exitError
	if errors.As(err, &e) {
		return e.code
	}
	return 1
}
