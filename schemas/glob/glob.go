// Package glob matches names with patterns in which * stands for any text and ? for
// one byte: those of models, headers and tools in a policy.
package glob

import (
	"slices"
	"strings"
)

const wildcards = "*?"

// Match reports whether the whole of name matches the pattern. It takes time in
// proportion to len(pattern) × len(name) at worst, and allocates nothing.
func Match(pattern, name string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// MatchAny reports whether name matches one of patterns.
func MatchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}

// Prefix returns the part of a pattern before its first wildcard, with which every
// name that matches begins. Whole reports that there is no wildcard.
func Prefix(pattern string) (prefix string, whole bool) {
	if i := strings.IndexAny(pattern, wildcards); i >= 0 {
		return pattern[:i], false
	}
	return pattern, true
}

// Literals returns how many characters of a pattern are no wildcards.
func Literals(pattern string) int {
	return len(pattern) - strings.Count(pattern, "*") - strings.Count(pattern, "?")
}
