package reference

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/deploy/unloop/cli"
	"github.com/unloop/unloop/schemas/policy"
)

// commands lists every command with its arguments and flags, and the variables of the
// default policy.
func commands(string) (string, error) {
	model, err := cli.Model()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, command := range model.Leaves(true) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", command.FullPath(), command.Help)
		if rows := arguments(command); len(rows) > 0 {
			b.WriteString(table([]string{"argument", "meaning"}, rows))
		}
		if rows := flags(command); len(rows) > 0 {
			b.WriteString(table([]string{"flag", "default", "variable", "meaning"}, rows))
		}
	}
	return b.String() + guardVariables(), nil
}

// arguments returns the rows of a command's positional arguments.
func arguments(command *kong.Node) (rows [][]string) {
	for _, arg := range command.Positional {
		rows = append(rows, []string{code(arg.Summary()), arg.Help})
	}
	return rows
}

// flags returns the rows of a command's own flags.
func flags(command *kong.Node) (rows [][]string) {
	for _, group := range command.AllFlags(true) {
		for _, f := range group {
			if f.Name == "help" || f.Name == "version" {
				continue
			}
			rows = append(rows, []string{code(spelled(f)), code(f.Default), code(strings.Join(f.Envs, ", ")), f.Help})
		}
	}
	return rows
}

// spelled returns a flag as command lines have it.
func spelled(f *kong.Flag) string {
	name := "--" + f.Name
	if f.Short != 0 {
		name = fmt.Sprintf("-%c, %s", f.Short, name)
	}
	if f.IsBool() {
		return name
	}
	return name + "=" + f.FormatPlaceHolder()
}

// guardVariables lists the variables that change the default policy. It asks for all of
// them with a value that none allows, and takes the allowed ones from the error.
func guardVariables() string {
	const invalid = "?"
	var names []string
	_, err := policy.Default(func(name string) string {
		names = append(names, name)
		return invalid
	})
	allowed := map[string]string{}
	for line := range strings.Lines(fmt.Sprint(err)) {
		if name, values, ok := strings.Cut(strings.TrimSpace(line), fmt.Sprintf("=%q: must be ", invalid)); ok {
			allowed[name] = values
		}
	}
	var rows [][]string
	for _, name := range names {
		value := allowed[name]
		if value == "" {
			value = "a text"
		}
		rows = append(rows, []string{code(name), value})
	}
	return "\n## Variables of the default policy\n\nGateways without a policy bundle read them at their start.\n" + table([]string{"variable", "value"}, rows)
}
