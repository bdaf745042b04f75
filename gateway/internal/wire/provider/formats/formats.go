// Package formats lists the wire formats. A new format is a package beside this
// one and a line in All.
//
// It knows which provider reads a format. It does not know which requests are of
// it: that is for package route to say.
package formats

import (
	"maps"
	"slices"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/gemini"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
	"github.com/unloop/unloop/gateway/internal/wire/route"
)

// All are the providers of all formats.
var All = map[route.Format]provider.Provider{
	route.HTTP:          plain.Plain{},
	route.AnthropicHTTP: anthropic.Other{},
	route.GeminiHTTP:    gemini.Other{},
	route.Chat:          chat.Chat{},
	route.Responses:     responses.Responses{},
	route.Messages:      anthropic.Messages{},
	route.Generate:      gemini.Generate{},
}

var byName = func() map[string]route.Format {
	formats := map[string]route.Format{}
	for format, p := range All {
		formats[p.Name()] = format
	}
	return formats
}()

// ByName returns the format of the provider with that name; false if there is none.
func ByName(name string) (route.Format, bool) {
	format, known := byName[name]
	return format, known
}

// Names returns the names of all formats, sorted.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }
