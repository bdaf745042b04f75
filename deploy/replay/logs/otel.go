package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// readExport reads an OTLP export in JSON, span by span: a list of resourceSpans with
// scopeSpans with spans. Before each span it calls entry, which returns its line.
func readExport(dec *jsontext.Decoder, out *sink, entry func() int) error {
	var resource attributes
	var list func(name string) error
	members := func() error {
		if _, err := dec.ReadToken(); err != nil { // {
			return err
		}
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return err
			}
			if err := list(name.String()); err != nil {
				return err
			}
		}
		_, err := dec.ReadToken()
		return err
	}
	list = func(name string) error {
		switch name {
		case "resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "instrumentationLibrarySpans":
			return elements(dec, members)
		case "resource":
			v, err := dec.ReadValue()
			if err == nil {
				resource = resourceAttributes(v)
			}
			return err
		case "spans":
			return elements(dec, func() error {
				out.line = entry()
				v, err := dec.ReadValue()
				if err == nil {
					readSpan(v, resource, out)
				}
				return err
			})
		}
		return dec.SkipValue()
	}
	return members()
}

// elements calls read for each object of the next array.
func elements(dec *jsontext.Decoder, read func() error) error {
	if dec.PeekKind() != '[' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for kind := dec.PeekKind(); kind != ']'; kind = dec.PeekKind() {
		if kind != '{' {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := read(); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// attributes are the attributes of a span or event, as plain JSON values.
type attributes map[string]any

// UnmarshalJSON reads both forms: OTLP's list of keys and typed values, and the
// plain object that SDKs print.
func (a *attributes) UnmarshalJSON(b []byte) error {
	var list []struct {
		Key   string   `json:"key"`
		Value anyValue `json:"value"`
	}
	if json.Unmarshal(b, &list) == nil {
		*a = make(attributes, len(list))
		for i := range list {
			(*a)[list[i].Key] = list[i].Value.plain()
		}
		return nil
	}
	var plain map[string]any
	if err := json.Unmarshal(b, &plain); err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	*a = plain
	return nil
}

// anyValue is OTLP's AnyValue.
type anyValue struct {
	String *string     `json:"stringValue"`
	Int    json.Number `json:"intValue"`
	Double *float64    `json:"doubleValue"`
	Bool   *bool       `json:"boolValue"`
	Array  *struct {
		Values []anyValue `json:"values"`
	} `json:"arrayValue"`
	List *struct {
		Values []struct {
			Key   string   `json:"key"`
			Value anyValue `json:"value"`
		} `json:"values"`
	} `json:"kvlistValue"`
}

func (v *anyValue) plain() any {
	switch {
	case v.String != nil:
		return *v.String
	case v.Int != "":
		n, err := v.Int.Float64()
		if err != nil {
			return nil
		}
		return n
	case v.Double != nil:
		return *v.Double
	case v.Bool != nil:
		return *v.Bool
	case v.Array != nil:
		out := make([]any, len(v.Array.Values))
		for i := range v.Array.Values {
			out[i] = v.Array.Values[i].plain()
		}
		return out
	case v.List != nil:
		out := make(map[string]any, len(v.List.Values))
		for i := range v.List.Values {
			out[v.List.Values[i].Key] = v.List.Values[i].Value.plain()
		}
		return out
	}
	return nil
}

// text returns the first of the named attributes that is text.
func (a attributes) text(names ...string) string {
	for _, n := range names {
		if s, ok := a[n].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// number returns the first of the named attributes that is a number, or the text of a
// number.
func (a attributes) number(names ...string) int {
	for _, n := range names {
		switch v := a[n].(type) {
		case float64:
			return int(v)
		case string:
			if i, err := strconv.Atoi(v); err == nil {
				return i
			}
		}
	}
	return 0
}

func resourceAttributes(v []byte) attributes {
	var r struct {
		Attributes attributes `json:"attributes"`
	}
	_ = json.Unmarshal(v, &r) // a resource that can't be read names no project
	return r.Attributes
}

// span is a span of OTLP or of an SDK.
type span struct {
	TraceID  string `json:"traceId"`
	TraceID2 string `json:"trace_id"`
	Context  struct {
		TraceID string `json:"trace_id"`
	} `json:"context"`
	StartNano  json.Number `json:"startTimeUnixNano"`
	Start      string      `json:"start_time"`
	Attributes attributes  `json:"attributes"`
	Events     []spanEvent `json:"events"`
	Status     struct {
		Code any `json:"code"`
		Text any `json:"status_code"`
	} `json:"status"`
	Resource struct {
		Attributes attributes `json:"attributes"`
	} `json:"resource"`
}

type spanEvent struct {
	Name       string     `json:"name"`
	Attributes attributes `json:"attributes"`
}

// promptOperations are the values of gen_ai.operation.name for prompts. Spans of agents,
// tools and embeddings are skipped.
var promptOperations = []string{"chat", "text_completion", "generate_content", "completion"}

func readSpan(v []byte, resource attributes, out *sink) {
	var s span
	if err := json.Unmarshal(v, &s); err != nil {
		out.fail(fmt.Errorf("read a span: %w", err))
		return
	}
	a := s.Attributes
	operation := a.text("gen_ai.operation.name", "llm.request.type")
	if operation == "" && a.text("gen_ai.request.model") == "" || operation != "" && !slices.Contains(promptOperations, operation) {
		return
	}
	if resource == nil {
		resource = s.Resource.Attributes
	}
	body, err := s.body()
	if err != nil {
		out.fail(err)
		return
	}
	out.request(Request{
		Source: OpenTelemetry, Path: pathChat, Time: s.time(), Body: body,
		Model: a.text("gen_ai.request.model", "gen_ai.response.model"), Project: resource.text("service.name"),
		Session: cmp.Or(a.text("gen_ai.conversation.id", "session.id"), s.TraceID, s.TraceID2, s.Context.TraceID),
		User:    a.text("enduser.id", "user.id"),
		Outcome: Outcome{
			Status:       s.status(),
			InputTokens:  a.number("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
			CachedTokens: a.number("gen_ai.usage.cache_read.input_tokens"),
			OutputTokens: a.number("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
		},
	})
}

func (s *span) time() time.Time {
	if ns, err := s.StartNano.Int64(); err == nil && ns > 0 {
		return time.Unix(0, ns).UTC()
	}
	return parseTime(s.Start)
}

func (s *span) status() int {
	if code := s.Attributes.number("http.response.status_code", "http.status_code", "error.type"); code >= 100 && code <= 599 {
		return code
	}
	for _, v := range []any{s.Status.Code, s.Status.Text} {
		switch v {
		case float64(2), "STATUS_CODE_ERROR", "ERROR":
			return 500
		}
	}
	return 200
}
