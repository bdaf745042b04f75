// Package formats lists the wire formats. A new format is a package beside this one and a
// line in All.
//
// Each format says itself what the others need to know of it. This package only joins what
// they say.
package formats

import (
	"maps"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/bedrock"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/gemini"
	"github.com/unloop/unloop/gateway/internal/wire/provider/ollama"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
)

// All are the formats of prompts.
var All = []*provider.Format{
	chat.Format,
	responses.Format,
	anthropic.Format,
	gemini.Format,
	ollama.Format,
	bedrock.Format, bedrock.Messages,
}

// HTTP is the format of requests that no other format reads and no upstream claims.
var HTTP = plain.Format

// Upstreams are the upstreams of all formats, in their order.
var Upstreams = upstreams(All)

func upstreams(all []*provider.Format) (list []*provider.Upstream) {
	for _, f := range all {
		for _, u := range f.Upstreams {
			if !slices.Contains(list, u) {
				list = append(list, u)
			}
		}
	}
	return list
}

// Framing returns how a stream of a content type is written, unless as server-sent events;
// nil for those and for what is no stream.
func Framing(contentType string) *provider.Framing {
	kind, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	for _, f := range All {
		if f.Framing != nil && strings.TrimSpace(kind) == f.Framing.ContentType {
			return f.Framing
		}
	}
	return nil
}

// byName has the formats of prompts, and those that upstreams have for their other paths.
var byName = func() map[string]*provider.Format {
	named := map[string]*provider.Format{HTTP.Name(): HTTP}
	for _, f := range All {
		named[f.Name()] = f
	}
	for _, u := range Upstreams {
		if u.Other != nil {
			named[u.Other.Name()] = u.Other
		}
	}
	return named
}()

// ByName returns the format with a name; false if there is none.
func ByName(name string) (*provider.Format, bool) {
	f, known := byName[name]
	return f, known
}

// Names returns the names of all formats, sorted.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }
