//go:build !unix

package cli

import "os"

// passedOn are the signals that are forwarded to the agent. Those of the keyboard reach
// it anyway.
var passedOn = []os.Signal{os.Interrupt}

func fromTerminal(os.Signal) bool { return true }

// codeOf returns the exit code of a process.
func codeOf(p *os.ProcessState) int { return p.ExitCode() }
