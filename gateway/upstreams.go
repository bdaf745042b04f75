package gateway

import (
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// Upstream is a service whose requests a gateway knows by their path.
type Upstream = provider.Upstream

// Upstreams returns the upstreams of all wire formats.
func Upstreams() []*Upstream { return formats.Upstreams }
