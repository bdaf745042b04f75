package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/unloop/unloop/schemas/kit/access"
)

// described is a request or an answer as Envoy describes it.
type described struct {
	method, path, host string
	status             int // of an answer; 0 for none
	header             http.Header
	body               io.ReadCloser
	length             int64
}

// describe returns the request that a map of headers describes, without its body.
func describe(m *corev3.HeaderMap) described {
	d := described{header: http.Header{}, body: http.NoBody}
	for _, h := range m.GetHeaders() {
		value := cmp.Or(string(h.GetRawValue()), h.GetValue())
		switch name := h.GetKey(); name {
		case ":method":
			d.method = value
		case ":path":
			d.path = value
		case ":authority", "host":
			d.host = value
		case ":status":
			if n, err := strconv.Atoi(value); err == nil {
				d.status = n
			}
		default:
			if !strings.HasPrefix(name, ":") {
				d.header.Add(name, value)
			}
		}
	}
	return d
}

// request returns the described request as net/http would.
func (d described) request(ctx context.Context, peer string) (*http.Request, error) {
	u, err := url.ParseRequestURI(d.path)
	if err != nil || !strings.HasPrefix(d.path, "/") {
		return nil, errors.New(":path must be a path such as /v1/chat/completions")
	}
	r := (&http.Request{
		Method: cmp.Or(d.method, http.MethodGet), URL: u, RequestURI: d.path, Host: d.host, Header: d.header,
		Proto: "HTTP/2.0", ProtoMajor: 2, Body: d.body, ContentLength: d.length, RemoteAddr: peer,
	}).WithContext(ctx)
	return r, nil
}

// announced returns the Content-Length; -1 for none.
func announced(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// replaced returns the headers for Envoy to set, without Content-Length and Connection.
func replaced(h http.Header) (out []*corev3.HeaderValueOption) {
	for name, values := range h {
		if name == "Content-Length" || name == "Connection" {
			continue
		}
		action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		for _, v := range values {
			out = append(out, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(v)}, AppendAction: action})
			action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
	}
	return out
}

// statusOf returns Envoy's form of a status.
func statusOf(status int) *typev3.HttpStatus {
	code := typev3.StatusCode(int32(status)) //nolint:gosec // a status has three digits
	if _, known := typev3.StatusCode_name[int32(code)]; !known {
		code = typev3.StatusCode_BadRequest
		if status >= http.StatusInternalServerError {
			code = typev3.StatusCode_ServiceUnavailable
		}
	}
	return &typev3.HttpStatus{Code: code}
}

// secrets returns the names of a request's headers that are for Unloop alone, in lower case.
func secrets(h http.Header) (names []string) {
	if h.Get(access.Header) != "" {
		names = append(names, strings.ToLower(access.Header))
	}
	return names
}

// forged returns the names of an answer's headers that only Unloop may set and does not set
// now, in lower case.
func forged(h, own http.Header) (names []string) {
	for name := range h {
		if _, set := own[name]; !set && strings.HasPrefix(name, "X-Loop-") {
			names = append(names, strings.ToLower(name))
		}
	}
	slices.Sort(names)
	return names
}
