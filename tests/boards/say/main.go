// Command say prints what the builtin model makes of each line it is given:
// the same on every board.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"edged/agent/llm"
	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/train"
)

func main() {
	m, err := builtin.New(builtin.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tools := train.Offer(train.Demo())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		a, err := m.Chat(context.Background(), llm.Request{
			Messages: []llm.Message{{Role: llm.User, Text: in.Text()}}, Tools: tools,
		}, nil)
		fmt.Printf("%s:", in.Text())
		for _, c := range a.Calls {
			fmt.Printf(" %s%s", c.Name, c.Args)
		}
		fmt.Printf(" %q %v\n", a.Text, err)
	}
}
