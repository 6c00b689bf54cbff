package main

import _ "embed"

// Names of the environment variables that a rewritten package reads.
const (
	switchVariable = "EDGED_MUTANT"          // the number of the mutant that is switched on
	reachVariable  = "EDGED_MUTANTS_REACHED" // a file: the numbers of the mutants that were reached
)

// switchText is the file that is added to a rewritten package.
//
//go:embed switch.go.txt
var switchText string
