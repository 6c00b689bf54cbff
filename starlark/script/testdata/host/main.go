// Command host is a script host for tests that run under the race detector,
// whose own binary cannot live within the memory a host is given.
package main

import (
	"os"

	"go.starlark.net/starlark"

	"edged/starlark/script"
	"edged/starlark/value"
)

func main() { os.Exit(script.HostMain(starlark.StringDict{"json": value.JSON()})) }
