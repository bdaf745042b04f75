package service

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// version and revision are set for releases by -ldflags "-X
// …/schemas/kit/service.version=1.2.3". The revision is for builds without the repository,
// such as those of images.
var version, revision string

// Build describes the binary. Unknown values are "unknown".
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	// Time is the time of the revision.
	Time string `json:"time"`
	// Modified is set if the source differed from the revision.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// unknown is the value of missing build information.
const unknown = "unknown"

// BuildInfo returns the description of this binary.
func BuildInfo() Build {
	b := Build{Version: version, Revision: cmp.Or(revision, unknown), Time: unknown, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(b.Version, unknown)
	return b
}

// String returns the description on one line.
func (b Build) String() string {
	parts := []string{b.Version}
	if b.Revision != unknown {
		revision := "revision " + b.Revision[:min(len(b.Revision), 12)]
		if b.Modified {
			revision += " with changes"
		}
		parts = append(parts, revision)
		if b.Time != unknown {
			parts = append(parts, "of "+b.Time)
		}
	}
	return strings.Join(append(parts, b.Go, b.Platform), ", ")
}
