//go:build !unix

package cli

import "os"

// passedOn are the signals that an agent gets in this process's place. What
// the keyboard causes reaches it anyway.
var passedOn = []os.Signal{os.Interrupt}

func fromTerminal(os.Signal) bool { return true }

// codeOf is the exit code of a process.
func codeOf(p *os.ProcessState) int { return p.ExitCode() }
