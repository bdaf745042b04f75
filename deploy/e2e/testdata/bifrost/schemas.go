// Package schemas has what a plugin sees of Bifrost's core, by its documentation.
package schemas

// BifrostContext is the context of a request.
type BifrostContext struct{}

// HTTPRequest is a request before Bifrost reads it.
type HTTPRequest struct {
	Method     string
	Path       string
	Headers    map[string]string
	Query      map[string]string
	Body       []byte
	PathParams map[string]string
}

// HTTPResponse answers a request in Bifrost's place.
type HTTPResponse struct {
	StatusCode int
	Headers    map[string]string
	Body       []byte
}
