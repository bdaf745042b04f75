package main

import (
	"fmt"
	"slices"
	"strings"
)

// target is a platform that the command is built for.
type target struct{ os, arch string }

var supported = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

func allTargets() []string {
	names := make([]string, len(supported))
	for i, t := range supported {
		names[i] = t.String()
	}
	return names
}

func parseTargets(list string) ([]target, error) {
	var targets []target
	for name := range strings.SplitSeq(list, ",") {
		goos, arch, _ := strings.Cut(strings.TrimSpace(name), "/")
		t := target{goos, arch}
		if !slices.Contains(supported, t) {
			return nil, fmt.Errorf("-targets: %q is none of %s", name, strings.Join(allTargets(), ", "))
		}
		targets = append(targets, t)
	}
	return targets, nil
}

func (t target) String() string { return t.os + "/" + t.arch }

// binary is the file name of the command.
func (t target) binary() string {
	if t.os == "windows" {
		return "unloop.exe"
	}
	return "unloop"
}

// npmOS and npmCPU are the platform as Node names it: process.platform and process.arch.
func (t target) npmOS() string {
	if t.os == "windows" {
		return "win32"
	}
	return t.os
}

func (t target) npmCPU() string {
	if t.arch == "amd64" {
		return "x64"
	}
	return t.arch
}
