//go:build linux

// Command agent starts processes in the pods of a gang without ssh (see package agent).
package main

import (
	"context"
	"os"

	"rollcall.training/internal/agent"
)

func main() { os.Exit(agent.Main(context.Background(), os.Args)) }
