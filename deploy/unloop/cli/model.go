package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/unloop/unloop/embedworker/pull"
)

// modelCmd has the commands for the embedding model.
type modelCmd struct {
	Pull modelPullCmd `cmd:"" help:"Download ONNX Runtime and all-MiniLM-L6-v2 and verify their SHA-256."`
}

type modelPullCmd struct {
	From     string `placeholder:"DIR|URL" help:"Folder or server with the files. Default: their public addresses."`
	Dir      string `placeholder:"DIR" help:"Where to install. Default: unloop in the user's data folder, where embedding workers look for it."`
	Platform string `default:"${platform}" placeholder:"OS/ARCH" help:"Platform of the runtime. Default: this one."`
}

// Run installs missing files, and prints how to use them.
func (c *modelPullCmd) Run(ctx context.Context, std streams) error {
	dir, err := c.dir()
	if err != nil {
		return err
	}
	system, arch, _ := strings.Cut(c.Platform, "/")
	artifacts, err := pull.Artifacts(system, arch)
	if err != nil {
		return err
	}
	bars := &fileBars{w: std.err}
	if err = pull.Pull(ctx, pull.Options{Dir: dir, Artifacts: artifacts, From: c.From, Progress: bars.draw}); err != nil {
		bars.end()
		return err
	}
	found := pull.Find(dir, system)
	fmt.Fprintf(std.out, "Installed in %s.\n", dir)
	if c.Dir == "" {
		fmt.Fprintln(std.out, "Embedding workers that start from now on use it.")
	} else {
		fmt.Fprintf(std.out, "Start embedding workers with --model %s --onnx-runtime %s\n", found.Model, found.Runtime)
	}
	return nil
}

func (c *modelPullCmd) dir() (string, error) {
	if c.Dir == "" {
		return pull.DefaultDir()
	}
	return filepath.Abs(c.Dir)
}

// fileBars draws a progress bar for each file.
type fileBars struct {
	w    io.Writer
	name string
	bar  *progressbar.ProgressBar
}

func (b *fileBars) draw(p pull.Progress) {
	if b.bar == nil || b.name != p.Name {
		b.end()
		b.name, b.bar = p.Name, progressbar.NewOptions64(p.Total, progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(p.Name),
			progressbar.OptionSetWidth(30), progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond))
		_ = b.bar.RenderBlank()
	}
	_ = b.bar.Set64(p.Done) // a terminal that cannot be written to shows no bar
	if p.Ready {
		b.end()
	}
}

// end ends the line of the current bar.
func (b *fileBars) end() {
	if b.bar != nil {
		fmt.Fprintln(b.w)
	}
	b.bar = nil
}
