package main

import "errors"

// coded is an error with an exit code of its own; an empty text was told already.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// unusable gives an error about the command or its input the exit code 2.
func unusable(err error) error {
	if err == nil {
		return nil
	}
	return coded{error: err, code: 2}
}

// exitCode is the one that an error ends the program with.
func exitCode(err error) int {
	var c coded
	if errors.As(err, &c) {
		return c.code
	}
	return 1
}
