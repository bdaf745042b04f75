package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

const versionVariable = "github.com/unloop/unloop/schemas/kit/service.version"

// build compiles the command for a platform, without debug information. A larger heap takes a
// quarter off the compiler's time. It uses cgo, which the ONNX embedder needs, only for this
// machine's platform.
func (r *release) build(ctx context.Context, t target, binary string) error {
	_, err := output(ctx, filepath.Join(r.root, "deploy"),
		[]string{"GOOS=" + t.os, "GOARCH=" + t.arch, "GOWORK=off", "CGO_ENABLED=" + cgo(ctx, t)},
		"go", "build", fmt.Sprint("-trimpath=", r.trim), "-gcflags=all=-dwarf=false", "-toolexec=env GOGC=400", "-ldflags", "-s -w -X "+versionVariable+"="+r.version, "-o", binary, "./unloop")
	return err
}

// cgo returns "1" if cgo can be used, else "0".
func cgo(ctx context.Context, t target) string {
	if t.os != runtime.GOOS || t.arch != runtime.GOARCH {
		return "0"
	}
	cc, err := output(ctx, ".", nil, "go", "env", "CC")
	if err != nil || cc == "" {
		return "0"
	}
	if _, err := exec.LookPath(strings.Fields(cc)[0]); err != nil {
		return "0"
	}
	return "1"
}

// inspect returns the build information in the binary. It fails if the binary is not for the
// target: those for other platforms cannot be started here.
func inspect(t target, binary string) (*debug.BuildInfo, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if built := (target{settings["GOOS"], settings["GOARCH"]}); built != t {
		return nil, fmt.Errorf("the binary is built for %s", built)
	}
	if info.Path != "github.com/unloop/unloop/deploy/unloop" {
		return nil, fmt.Errorf("the binary is the command %s", info.Path)
	}
	if t != (target{runtime.GOOS, runtime.GOARCH}) && settings["CGO_ENABLED"] != "0" {
		return nil, fmt.Errorf("the binary needs the libraries of a C compiler")
	}
	return info, nil
}
