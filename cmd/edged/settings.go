package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edged/cmd/edged/internal/config"
)

// Settings on the command line: every one is a flag of run, demo and config.

// settingFlags adds a flag for every setting that has a form as text.
func settingFlags(cmd *cobra.Command, into map[string]string) {
	c := config.Default()
	for _, v := range c.Values() {
		switch v.Value.(type) {
		case string, bool, int64, []string:
			f := cmd.Flags().VarPF(&settingFlag{into, v.Key}, v.Key, "", v.Doc)
			f.Hidden = true // 'edged config' lists them
			if _, is := v.Value.(bool); is {
				f.NoOptDefVal = "true"
			}
		}
	}
}

type settingFlag struct {
	into map[string]string
	key  string
}

func (f *settingFlag) String() string     { return f.into[f.key] }
func (f *settingFlag) Type() string       { return "value" }
func (f *settingFlag) Set(v string) error { f.into[f.key] = v; return nil }

func (c *cli) configVerb() *cobra.Command {
	var dir string
	settings := map[string]string{}
	cmd := verb("config [KEY]", "Print every setting with its source", 0, 1, func(cmd *cobra.Command, args []string) error {
		cfg, err := config.Load(dir, environ(), settings)
		if err != nil {
			return err
		}
		list := cfg.Values()
		if len(args) == 1 {
			prefix := args[0] + "."
			list = slices.DeleteFunc(list, func(v config.Value) bool { return v.Key != args[0] && !strings.HasPrefix(v.Key, prefix) })
			if len(list) == 0 {
				return config.CheckKey(args[0])
			}
		}
		return c.print(list, func(w io.Writer) {
			for _, v := range list {
				fmt.Fprintf(w, "%-24s %-28s %-14s %s\n", v.Key, compact(v.Value), v.Source, v.Doc)
			}
		})
	})
	cmd.Long = "Prints every setting with its value, where the value came from, and what it is for.\nA flag beats the environment (EDGED_MQTT_LISTEN for mqtt.listen), which beats edged.toml, which beats the default."
	cmd.Flags().StringVar(&dir, "dir", ".", "folder of the robot")
	settingFlags(cmd, settings)
	return cmd
}
