package reference

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/unloop/unloop/deploy/unloop/cli"
	"github.com/unloop/unloop/schemas/policy"
)

// shared is in how many commands a flag stands before it is described once for all of them.
const shared = 10

// commands lists every command with its arguments and flags, and the variables of the
// default policy.
func commands(string) (string, error) {
	model, err := cli.Model()
	if err != nil {
		return "", err
	}
	head := []string{"flag", "default", "variable", "meaning"}
	common, stands := commonFlags(model)
	var b strings.Builder
	b.WriteString("\n## Flags of many commands\n" + table(head, common))
	for _, command := range model.Leaves(true) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", command.FullPath(), command.Help)
		if rows := arguments(command); len(rows) > 0 {
			b.WriteString(table([]string{"argument", "meaning"}, rows))
		}
		own, others := flags(command, stands)
		if len(own) > 0 {
			b.WriteString(table(head, own))
		}
		if len(others) > 0 {
			fmt.Fprintf(&b, "\n[Also](#flags-of-many-commands): %s.\n", strings.Join(others, ", "))
		}
	}
	return b.String() + guardVariables(), nil
}

// commonFlags returns the rows of the flags that many commands have, and of each row in how
// many commands it stands.
func commonFlags(model *kong.Application) (rows [][]string, stands map[string]int) {
	stands = map[string]int{}
	for _, command := range model.Leaves(true) {
		for _, f := range flagsOf(command) {
			key := strings.Join(row(f), "|")
			if stands[key]++; stands[key] == shared {
				rows = append(rows, row(f))
			}
		}
	}
	return rows, stands
}

// arguments returns the rows of a command's positional arguments.
func arguments(command *kong.Node) (rows [][]string) {
	for _, arg := range command.Positional {
		rows = append(rows, []string{code(arg.Summary()), arg.Help})
	}
	return rows
}

// flags returns the rows of the flags that a command has and few others, and the names of
// those that stand in many.
func flags(command *kong.Node, stands map[string]int) (own [][]string, others []string) {
	for _, f := range flagsOf(command) {
		if r := row(f); stands[strings.Join(r, "|")] < shared {
			own = append(own, r)
		} else {
			others = append(others, code("--"+f.Name))
		}
	}
	return own, others
}

func flagsOf(command *kong.Node) (all []*kong.Flag) {
	for _, group := range command.AllFlags(true) {
		for _, f := range group {
			if f.Name != "help" && f.Name != "version" {
				all = append(all, f)
			}
		}
	}
	return all
}

func row(f *kong.Flag) []string {
	return []string{code(spelled(f)), code(f.Default), code(strings.Join(f.Envs, ", ")), f.Help}
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
