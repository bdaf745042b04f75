// Command dist builds a release: an archive of the unloop command for each platform, npm
// and Debian packages with the same binaries, a Homebrew formula, the names of the container
// images, the packages of the SDKs, and their checksums.
//
//	dist [-out DIR] [-version VERSION] [-targets linux/amd64,…] [-url URL] [-registry NAME] [-trimpath=false]
//
// It publishes nothing.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/unloop/unloop/schemas/kit/service"
)

func main() { os.Exit(service.Program("dist", run)) }

func run(ctx context.Context, args []string, progress io.Writer) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	out := flags.String("out", "dist", "folder for the results")
	version := flags.String("version", "", "version of the release, such as 1.2.3 (default: 0.0.0-dev.REVISION)")
	list := flags.String("targets", strings.Join(allTargets(), ","), "platforms, as GOOS/GOARCH")
	url := flags.String("url", "", "address of the folder where the files will be published (default: the release of the version on GitHub)")
	registry := flags.String("registry", "unloop", "where the container images will be, as HOST/ORGANIZATION or an organization")
	trim := flags.Bool("trimpath", true, "leave the paths of this machine out of the binaries, for which all packages are compiled anew")
	if err := flags.Parse(args); err != nil {
		return err
	}
	targets, err := parseTargets(*list)
	if err != nil {
		return err
	}
	r, err := newRelease(ctx, *out, *version)
	if err != nil {
		return err
	}
	r.trim, r.registry = *trim, *registry
	r.url = cmp.Or(strings.TrimRight(*url, "/"), "https://github.com/unloop/unloop/releases/download/v"+r.version)
	for _, t := range targets {
		fmt.Fprintln(progress, "dist: building", t)
		if err := r.add(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	if err := r.finish(targets); err != nil {
		return err
	}
	fmt.Fprintf(progress, "dist: %d files and SHA256SUMS in %s\n", len(r.sums), r.out)
	return nil
}
