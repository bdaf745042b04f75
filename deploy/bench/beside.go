package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/schemas/kit/freeport"
)

// askPath is where Envoy asks over HTTP about a request to chatPath.
const askPath = "/unloop/v1/beside/envoy" + chatPath

// beside compares what another gateway waits for when it asks Unloop with asking what always
// says yes: over HTTP, and over gRPC about a request with its answer.
func (b *bench) beside(ctx context.Context) error {
	upstream, err := startRole(ctx, &b.group, originRole)
	if err != nil {
		return err
	}
	yes, err := freeport.Addr()
	if err != nil {
		return err
	}
	if _, err := startRole(ctx, &b.group, yesRole, yes); err != nil {
		return err
	}
	const nameHTTP, nameRPC = "empty callout over HTTP", "empty ext_proc"
	overHTTP, overRPC := []measure.Contender{asked(nameHTTP, upstream.url)}, []measure.Contender{processed(nameRPC, yes)}
	for _, rival := range b.rivals() {
		addr, err := freeport.Addr()
		if err != nil {
			return err
		}
		ours, err := b.startUp(ctx, &b.group, unloop{binary: rival.binary, flags: append([]string{"--beside-listen", addr}, patient...)}, upstream.url)
		if err != nil {
			return err
		}
		overHTTP, overRPC = append(overHTTP, asked("Unloop"+rival.suffix, ours.url)), append(overRPC, processed("Unloop"+rival.suffix, addr))
	}
	figures := []measure.Figure{measure.P50, measure.P99, measure.Rate}
	res, err := measure.Compare(ctx, b.plan, overHTTP...)
	if err != nil {
		return err
	}
	b.printResults(res, nameHTTP, figures, "callouts over HTTP, prompts of %d bytes", promptSize)
	if res, err = measure.Compare(ctx, b.plan, overRPC...); err != nil {
		return err
	}
	b.printResults(res, nameRPC, figures, "callouts over gRPC (ext_proc), prompts of %d bytes and their answers", promptSize)
	return nil
}

// asks counts the prompts that were asked about, which all differ.
var asks atomic.Int64

// asked asks about prompts over HTTP, each caller on a connection of its own.
func asked(name, url string) measure.Contender {
	return measure.Contender{Name: name, Caller: func(_, _ int) (measure.Op, func(), error) {
		conn, err := dial(url)
		if err != nil {
			return nil, nil, err
		}
		conn.path = askPath
		op := func(ctx context.Context) error {
			got, err := conn.post(ctx, shortKey, []byte(prompt(asks.Add(1))))
			if err == nil && got.status != http.StatusOK {
				err = fmt.Errorf("%w: status %d", errAnswer, got.status)
			}
			return err
		}
		return op, conn.close, nil
	}}
}

// processed shows prompts and their answers, each caller on a connection of its own.
func processed(name, addr string) measure.Contender {
	return measure.Contender{Name: name, Caller: func(_, _ int) (measure.Op, func(), error) {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, nil, fmt.Errorf("connect to %s: %w", addr, err)
		}
		envoy := procv3.NewExternalProcessorClient(conn)
		return func(ctx context.Context) error { return show(ctx, envoy, []byte(prompt(asks.Add(1)))) }, func() { _ = conn.Close() }, nil
	}}
}

// show does what Envoy does with a request that passes.
func show(ctx context.Context, envoy procv3.ExternalProcessorClient, body []byte) error {
	stream, err := envoy.Process(ctx)
	if err != nil {
		return fmt.Errorf("open a stream: %w", err)
	}
	for _, m := range []*procv3.ProcessingRequest{
		{Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{Headers: fields(
			":method", "POST", ":path", chatPath, "authorization", "Bearer "+shortKey, "content-type", "application/json", "content-length", fmt.Sprint(len(body)))}}},
		{Request: &procv3.ProcessingRequest_RequestBody{RequestBody: &procv3.HttpBody{Body: body, EndOfStream: true}}},
		{Request: &procv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &procv3.HttpHeaders{Headers: fields(":status", "200", "content-type", "application/json")}}},
		{Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: []byte(answer), EndOfStream: true}}},
	} {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("send: %w", err)
		}
		got, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if got.GetImmediateResponse() != nil {
			return fmt.Errorf("%w: %s", errAnswer, got.GetImmediateResponse().GetBody())
		}
	}
	if err := stream.CloseSend(); err != nil {
		return fmt.Errorf("end the stream: %w", err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the stream ended with %w", errAnswer, err)
	}
	return nil
}

func fields(pairs ...string) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

// yes is a server of ext_proc that lets everything pass, at the second argument.
func yes(ctx context.Context, args []string) error {
	ln, err := net.Listen("tcp", args[1])
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := grpc.NewServer()
	procv3.RegisterExternalProcessorServer(server, processor{})
	defer server.Stop()
	go func() { _ = server.Serve(ln) }() // it ends with Stop
	return serve(ctx, args[0], http.NotFound)
}

type processor struct{}

// Process implements procv3.ExternalProcessorServer.
func (processor) Process(stream procv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(passes(m)); err != nil {
			return err
		}
	}
}

// passes returns the answer that lets a message pass.
func passes(m *procv3.ProcessingRequest) *procv3.ProcessingResponse {
	switch m.GetRequest().(type) {
	case *procv3.ProcessingRequest_RequestHeaders:
		return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestHeaders{RequestHeaders: &procv3.HeadersResponse{}}}
	case *procv3.ProcessingRequest_RequestBody:
		return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestBody{RequestBody: &procv3.BodyResponse{}}}
	case *procv3.ProcessingRequest_ResponseHeaders:
		return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &procv3.HeadersResponse{}}}
	default:
		return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ResponseBody{ResponseBody: &procv3.BodyResponse{}}}
	}
}
