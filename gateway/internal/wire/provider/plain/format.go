package plain

import (
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
)

// Format is that of any HTTP request.
var Format = &provider.Format{Provider: Plain{}, PutKey: openai.PutKey}
