package gateway

import (
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// Upstream is a service whose requests a gateway recognizes by their path.
type Upstream = provider.Upstream

// Upstreams returns the upstreams of all wire formats.
func Upstreams() []*Upstream { return formats.Upstreams }

// HasPrompts reports whether requests to a path carry prompts in some wire format.
func HasPrompts(path string) bool {
	path = strings.TrimRight(path, "/")
	return slices.ContainsFunc(formats.All, func(f *provider.Format) bool { return f.Prompt() && f.Reads(path) })
}

// IdentitySource says where a part of a request's identity comes from.
type IdentitySource = identity.Source

// IdentitySources describes the parts of an identity.
func IdentitySources() []IdentitySource { return identity.Sources() }
