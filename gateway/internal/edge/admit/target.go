package admit

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/route"
)

// Target refuses a request whose path leads to no upstream; known reports whether its target
// is one. It returns nil for other requests.
func Target(r *http.Request, target route.Target, known bool) *provider.Refusal {
	switch {
	case !known:
		return &provider.Refusal{
			Status: http.StatusNotFound, Code: "unknown_path",
			Message: "no upstream for this path; " + cmp.Or(route.Misdirected(r), "name one with --upstream default=URL, or use /NAME/… of a configured upstream"),
		}
	case target.Escapes:
		return &provider.Refusal{
			Status: http.StatusBadRequest, Code: "bad_path",
			Message: "the path's dot segments lead out of the upstream's own path",
		}
	}
	return nil
}

// WebSocket refuses WebSockets of prompt formats, whose frames would pass uninspected.
// Clients then fall back to HTTP requests. It returns nil for other requests.
func WebSocket(r *http.Request, f *provider.Format) *provider.Refusal {
	if f.NoSocket == "" || r.Method != http.MethodGet || !strings.EqualFold(strings.TrimSpace(r.Header.Get("Upgrade")), "websocket") {
		return nil
	}
	return &provider.Refusal{
		Status: http.StatusUpgradeRequired, Code: "websocket_not_supported",
		Message: "Unloop reads " + f.NoSocket + " as HTTP requests, not over WebSocket: send POST to the same URL",
		Headers: []provider.Header{{Name: "Upgrade", Value: "HTTP/1.1"}, {Name: "Connection", Value: "Upgrade"}, NoRetry},
	}
}
