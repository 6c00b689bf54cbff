package main

import (
	"fmt"
	"os"

	"edged/hw"
	"edged/starlark/lib"
	"edged/starlark/script"
)

// The words that edged starts itself with. They are no verbs: what comes on
// standard input is from a parent.
const (
	guardWord = "hw-guard"
	hostWord  = "script-host"
)

// children is the whole process if it was started as a child of another edged:
// the guard, which makes the robot safe when that one was killed, or the host
// of scripts from elsewhere.
func children(args []string) (code int, ours bool) {
	if len(args) != 1 {
		return exitOK, false
	}
	switch args[0] {
	case guardWord:
		if err := hw.RunGuard(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "edged: guard:", err)
			return exitProblem, true
		}
		return exitOK, true
	case hostWord:
		stepBack()
		return script.HostMain(lib.HostNames()), true
	}
	return exitOK, false
}

// guardCommand starts this binary as the guard.
func guardCommand() []string { return []string{self(), guardWord} }

// self is the file of this binary, as it was when the process began.
func self() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return os.Args[0]
}
