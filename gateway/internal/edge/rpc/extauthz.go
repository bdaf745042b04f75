package rpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/unloop/unloop/gateway/internal/edge/beside"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
)

const authorizePath = "/envoy.service.auth.v3.Authorization/Check"

// authorize answers Envoy's external authorization whether a request may be sent.
func (h *Handler) authorize(ctx context.Context, q *connect.Request[authv3.CheckRequest]) (*connect.Response[authv3.CheckResponse], error) {
	asked := q.Msg.GetAttributes().GetRequest().GetHttp()
	if asked == nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the question has no attributes.request.http"))
	}
	d := describe(asked.GetHeaderMap())
	for name, value := range asked.GetHeaders() {
		if !strings.HasPrefix(name, ":") {
			d.header.Set(name, value)
		}
	}
	keyed(d.header, q.Header())
	text := asked.GetRawBody()
	if len(text) == 0 {
		text = []byte(asked.GetBody())
	}
	d.method, d.path, d.host = cmp.Or(asked.GetMethod(), d.method), cmp.Or(asked.GetPath(), d.path), cmp.Or(asked.GetHost(), d.host)
	if len(text) > 0 {
		d.body, d.length = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	}
	removed := secrets(d.header)
	within, cancel := beside.Within(ctx, 0)
	defer cancel()
	r, err := d.request(within, callOf(ctx).peer)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	w := newWriter(nil)
	h.cfg.Gateway.Decide(w, r)
	if w.Status == respond.StatusClientLeft || ctx.Err() != nil {
		return nil, connect.NewError(connect.CodeCanceled, context.Cause(ctx))
	}
	return connect.NewResponse(authorized(w, removed)), nil
}

// authorized converts the gateway's answer for Envoy.
func authorized(w *writer, removed []string) *authv3.CheckResponse {
	if w.Status < http.StatusMultipleChoices {
		return &authv3.CheckResponse{
			Status: &statuspb.Status{},
			HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
				HeadersToRemove: removed, ResponseHeadersToAdd: replaced(w.Headers),
			}},
		}
	}
	code := connect.CodePermissionDenied
	if w.Status == http.StatusUnauthorized {
		code = connect.CodeUnauthenticated
	}
	return &authv3.CheckResponse{
		Status: &statuspb.Status{Code: int32(code)}, //nolint:gosec // codes are small
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status: statusOf(w.Status), Headers: replaced(w.Headers), Body: strings.ToValidUTF8(w.Body.String(), ""),
		}},
	}
}
