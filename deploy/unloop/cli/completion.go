package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: bash, zsh or fish."`
}

// Help explains how to install the script.
func (c *completionCmd) Help() string {
	return "For this shell only: source <(unloop completion bash), the same for zsh, and unloop completion fish | source. " +
		"For all new shells, put that line into ~/.bashrc or ~/.zshrc, or write the output to ~/.config/fish/completions/unloop.fish."
}

// The scripts pass the words up to the cursor, after "--", to the hidden command complete-words.
var completionScripts = map[string]string{
	"bash": `_unloop() {
	local IFS=$'\n'
	COMPREPLY=($("${COMP_WORDS[0]}" complete-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o bashdefault -o default -F _unloop unloop
`,
	"zsh": `#compdef unloop
_unloop() {
	local -a all
	all=("${(@f)$("${words[1]}" complete-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n ${all[1]} ]]; then compadd -- "${all[@]}"; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _unloop unloop
`,
	"fish": `complete -c unloop -a '(set -l words (commandline -opc) (commandline -ct); $words[1] complete-words -- $words[2..] 2>/dev/null)'
`,
}

// Run prints the script for a shell.
func (c *completionCmd) Run(std streams) error {
	_, err := fmt.Fprint(std.out, completionScripts[c.Shell])
	return err
}

// completeCmd prints the completions of the last word of a command line.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the completions, one per line.
func (c *completeCmd) Run(ctx context.Context, parsed *kong.Context, std streams) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	var fitting []string
	for _, candidate := range candidates(ctx, parsed.Model.Node, before, last) {
		if strings.HasPrefix(candidate, last) {
			fitting = append(fitting, candidate)
		}
	}
	slices.Sort(fitting)
	for _, candidate := range slices.Compact(fitting) {
		fmt.Fprintln(std.out, candidate)
	}
	return nil
}

// candidates returns the words that can follow the words before the cursor.
func candidates(ctx context.Context, node *kong.Node, before []string, last string) (all []string) {
	var open *kong.Flag // the flag whose value comes next
	arguments := 0
	for _, word := range before {
		switch child := childOf(node, word); {
		case open != nil:
			open = nil
		case strings.HasPrefix(word, "-"):
			open = valueFlag(node, word)
		case child != nil:
			node = child
		case passesOn(node):
			return nil // the remaining words are another command's
		default:
			arguments++
		}
	}
	switch {
	case open != nil:
		return valuesOf(open.Value, last)
	case strings.HasPrefix(last, "-"):
		for _, flag := range flagsOf(node) {
			all = append(all, "--"+flag.Name)
		}
		return append(all, "--help")
	}
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, child.Name)
		}
	}
	if arguments < len(node.Positional) {
		all = append(all, argumentsOf(ctx, node, node.Positional[arguments], last)...)
	}
	return all
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// passesOn reports whether a command passes its arguments on to another program.
func passesOn(node *kong.Node) bool {
	return slices.ContainsFunc(node.Positional, func(v *kong.Value) bool { return v.Passthrough })
}

// flagsOf returns the flags of a command, its parents and its default subcommand.
func flagsOf(node *kong.Node) (all []*kong.Flag) {
	for _, level := range node.AllFlags(true) {
		all = append(all, level...)
	}
	if node.DefaultCmd != nil {
		all = append(all, node.DefaultCmd.Flags...)
	}
	return all
}

// valueFlag returns the flag that a word names, if the next word is its value.
func valueFlag(node *kong.Node, word string) *kong.Flag {
	for _, flag := range flagsOf(node) {
		if (word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short)) && !flag.IsBool() {
			return flag
		}
	}
	return nil
}

// valuesOf returns the possible values of a flag or an argument.
func valuesOf(v *kong.Value, last string) []string {
	switch {
	case v.Enum != "":
		return v.EnumSlice()
	case v.Tag.Type != "" || v.Tag.PlaceHolder == "FILE" || v.Tag.PlaceHolder == "DIR":
		return files(last)
	}
	return nil
}

// argumentsOf returns the possible values of an argument: for loops, the ids of the open ones.
func argumentsOf(ctx context.Context, node *kong.Node, v *kong.Value, last string) []string {
	if node.Parent == nil || node.Parent.Name != "loops" {
		return valuesOf(v, last)
	}
	js, err := client{NATS: cmp.Or(os.Getenv("UNLOOP_NATS"), defaultNATS)}.open(unheard)
	if err != nil {
		return nil
	}
	defer js.Conn().Close()
	loops, err := storedLoops(ctx, js)
	if err != nil {
		return nil
	}
	var ids []string
	for _, l := range loops {
		ids = append(ids, l.LoopID)
	}
	return ids
}

// files returns the paths with a prefix; those of folders end in a slash.
func files(prefix string) []string {
	found, err := filepath.Glob(prefix + "*")
	if err != nil {
		return nil
	}
	for i, name := range found {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			found[i] += string(filepath.Separator)
		}
	}
	return found
}
