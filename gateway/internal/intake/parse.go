package intake

import (
	"errors"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/encoding"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Parse reads the prompt of a request whose body was read, or sets why it can't be
// inspected. limit bounds the length of a body that is decompressed.
func Parse(x *request.Request, limit int64, opts provider.Options) {
	switch {
	case !x.Target.Format.Prompt():
		return
	case x.Body.Rest != nil:
		x.Uninspected = request.UninspectedTooLarge
		return
	case x.Method != http.MethodPost:
		return
	}
	text, err := encoding.Decode(strings.Join(x.Header.Values("Content-Encoding"), ","), x.Body.Bytes, limit)
	if err != nil {
		x.Uninspected = undecoded(err)
		return
	}
	x.Body.Text = text
	prompt, err := x.Provider.Parse(text, opts)
	if err != nil {
		if plain, changed := fingerprint.Plain(text); changed {
			x.Body.Text = plain
			prompt, err = x.Provider.Parse(plain, opts)
		}
	}
	if err != nil {
		x.Uninspected = request.UninspectedInvalid
		return
	}
	x.Prompt = prompt
}

// undecoded returns why a compressed body was not read.
func undecoded(err error) string {
	switch {
	case errors.Is(err, encoding.ErrTooLarge):
		return request.UninspectedTooLarge
	case errors.Is(err, encoding.ErrUnknown):
		return request.UninspectedEncoding
	default:
		return request.UninspectedInvalid
	}
}
