package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/unloop/unloop/embedworker/pull"
)

// modelCmd lists the commands for the embedding model.
type modelCmd struct {
	Pull modelPullCmd `cmd:"" help:"Fetch ONNX Runtime and all-MiniLM-L6-v2, each checked against its SHA-256."`
}

type modelPullCmd struct {
	From string `placeholder:"DIR|URL" help:"Folder or server with the files under their own names, instead of their public addresses."`
	Dir  string `placeholder:"DIR" help:"Where to install. Default: unloop in the user's data folder, where embedding workers look."`
}

// Run installs missing files and says how to use them.
func (c *modelPullCmd) Run(ctx context.Context, io streams) error {
	dir, err := c.dir()
	if err != nil {
		return err
	}
	artifacts, err := pull.Artifacts(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return err
	}
	draw, end := pull.Bar(io.err)
	err = pull.Pull(ctx, pull.Options{Dir: dir, Artifacts: artifacts, From: c.From, Progress: draw})
	end()
	if err != nil {
		return err
	}
	found := pull.Find(dir, runtime.GOOS)
	fmt.Fprintf(io.out, "Installed in %s.\n", dir)
	if c.Dir == "" {
		fmt.Fprintln(io.out, "Embedding workers that start from now on use it.")
	} else {
		fmt.Fprintf(io.out, "Start embedding workers with --model %s --onnx-runtime %s\n", found.Model, found.Runtime)
	}
	return nil
}

func (c *modelPullCmd) dir() (string, error) {
	if c.Dir == "" {
		return pull.DefaultDir()
	}
	return filepath.Abs(c.Dir)
}
