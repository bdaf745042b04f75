package checkapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/schemas"
)

func TestFaultOfACheckNamesItsField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ check, field, says string }{
		"nothing":                {``, "", "must be an object"},
		"no object":              {`[]`, "", "must be an object"},
		"two values":             {`{"prompt":"p"} {}`, "", "data after"},
		"cut off":                {`{"prompt":"p`, "prompt", "invalid JSON"},
		"empty":                  {`{}`, "body", "give the request"},
		"only nulls":             {`{"body":null,"prompt":null,"peek":null}`, "body", "give the request"},
		"unknown field":          {`{"prompt":"p","tools":["ls"]}`, "tools", "is no field"},
		"other spelling":         {`{"Prompt":"p"}`, "Prompt", "is no field"},
		"field twice":            {`{"prompt":"p","prompt":"q"}`, "", "duplicate"},
		"member twice in a body": {`{"body":{"a":1,"a":2}}`, "body", "duplicate"},
		"number for a text":      {`{"prompt":"p","session":7}`, "session", "must be a string"},
		"text for peek":          {`{"prompt":"p","peek":"true"}`, "peek", "true or false"},
		"text for probe":         {`{"prompt":"p","probe":"true"}`, "probe", "true or false"},
		"messages as a text":     {`{"messages":"p"}`, "messages", "must be an array"},
		"no messages":            {`{"messages":[ ]}`, "messages", "must not be empty"},
		"prompt and messages":    {`{"prompt":"p","messages":[{}]}`, "prompt", "beside messages"},
		"prompt and body":        {`{"prompt":"p","body":{}}`, "body", "beside prompt"},
		"model beside a body":    {`{"body":{},"model":"m"}`, "model", "a body has its own"},
		"user beside a body":     {`{"body":{},"user":"u"}`, "user", "a body has its own"},
		"unknown format":         {`{"body":{},"format":"soap"}`, "format", `"soap" is none of`},
		"prompt in a format":     {`{"prompt":"p","format":"http"}`, "format", "give the body"},
		"format without a path":  {`{"body":{},"format":"http"}`, "path", "say where"},
		"body without a path":    {`{"body":{}}`, "path", "say where"},
		"relative path":          {`{"body":{},"path":"v1/x"}`, "path", "must look like"},
		"path with a host":       {`{"body":{},"path":"http://h/v1"}`, "path", "must look like"},
		"broken path":            {`{"body":{},"path":"/%zz"}`, "path", "must look like"},
		"path of our own":        {`{"body":{},"path":"/unloop/v1/check"}`, "path", "Unloop's own"},
		"method":                 {`{"body":{},"path":"/x","method":"get it"}`, "method", "capitals"},
		"id with a line end":     {`{"prompt":"p","request_id":"a\nb"}`, "request_id", "printable"},
		"long id":                {`{"prompt":"p","request_id":"` + strings.Repeat("x", 129) + `"}`, "request_id", "128"},
	} {
		q, fault := parse([]byte(c.check))
		if fault == nil {
			fault = q.complete()
		}
		if fault == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if fault.Field != c.field || !strings.Contains(fault.Message, c.says) || fault.Status != http.StatusBadRequest {
			t.Errorf("%s: %+v; want field %q and %q", name, *fault, c.field, c.says)
		}
	}
}

func TestWhatACheckLeavesOutIsFilledIn(t *testing.T) {
	t.Parallel()
	type filled struct{ Method, URL, Body string }
	for check, want := range map[string]filled{
		`{"prompt":"a \"b\"","model":"m","user":"u"}`:        {"POST", "/v1/chat/completions", `{"model":"m","user":"u","messages":[{"role":"user","content":"a \"b\""}]}`},
		`{"messages":[{"role":"user"}],"model":"m"}`:         {"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user"}]}`},
		`{"prompt":"","path":"/ollama/v1/chat/completions"}`: {"POST", "/ollama/v1/chat/completions", `{"model":"","messages":[{"role":"user","content":""}]}`},
		`{"body":{"a": 1.0},"format":"openai-chat"}`:         {"POST", "/v1/chat/completions", `{"a": 1.0}`},
		`{"path":"/v1/models?limit=2","method":"GET"}`:       {"GET", "/v1/models?limit=2", ``},
		`{"body":"text","path":"/x"}`:                        {"POST", "/x", `"text"`},
	} {
		q, fault := parse([]byte(check))
		if fault == nil {
			fault = q.complete()
		}
		if fault != nil {
			t.Errorf("%s: %v", check, fault)
			continue
		}
		r := q.request(httptest.NewRequest(http.MethodPost, CheckPath, http.NoBody))
		if diff := cmp.Diff(want, filled{r.Method, r.URL.String(), string(q.body)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", check, diff)
		}
	}
}

func TestCheckSpeaksForItsRequestInHeaders(t *testing.T) {
	t.Parallel()
	q, fault := parse([]byte(`{"prompt":"p","session":"s","tenant":"t","project":"p","request_id":"r"}`))
	if fault == nil {
		fault = q.complete()
	}
	if fault != nil {
		t.Fatal(fault)
	}
	check := httptest.NewRequest(http.MethodPost, CheckPath, http.NoBody)
	for name, value := range map[string]string{
		"Authorization": "Bearer sk", "X-Tool-Name": "ls", "X-Session-ID": "other", "X-Unloop-Check": "old", "Content-Encoding": "identity",
	} {
		check.Header.Set(name, value)
	}
	want := http.Header{
		"Authorization": {"Bearer sk"}, "X-Tool-Name": {"ls"}, "X-Session-Id": {"s"},
		"X-Tenant-Id": {"t"}, "X-Project-Id": {"p"}, "X-Request-Id": {"r"},
	}
	if diff := cmp.Diff(want, q.request(check).Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// FuzzParse: no check makes the reader panic, and what it accepts has a
// request.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"prompt":"p","peek":true}`))
	f.Add([]byte(`{"body":{"messages":[]},"path":"/v1/x?y","method":"PUT"}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"\ud800"}],"model":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, fault := parse(text)
		if fault == nil {
			fault = q.complete()
		}
		if fault != nil {
			if fault.Status != http.StatusBadRequest || fault.Message == "" {
				t.Fatalf("%+v", *fault)
			}
			return
		}
		if q.url == nil || q.method == "" || q.request(httptest.NewRequest(http.MethodPost, CheckPath, http.NoBody)).URL == nil {
			t.Fatalf("no request: %+v", q)
		}
	})
}

func TestADescriptionBecomesACheckWithItsHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ description, body, header, fault string }{
		"with headers":    {`{"path":"/x","headers":{"X-Org":"acme"}}`, `{"path":"/x"}`, "acme", ""},
		"without headers": {`{"path":"/x"}`, `{"path":"/x"}`, "", ""},
		"no object":       {`[]`, "", "", "read the description"},
		"wrong headers":   {`{"headers":[]}`, "", "", "headers must be an object"},
	} {
		r, err := Description(t.Context(), []byte(c.description))
		if err != nil || c.fault != "" {
			if err == nil || c.fault == "" || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", name, err, c.fault)
			}
			continue
		}
		if body, _ := io.ReadAll(r.Body); string(body) != c.body || r.Header.Get("X-Org") != c.header || r.URL.Path != CheckPath {
			t.Errorf("%s: %s %s with %v", name, r.URL, body, r.Header)
		}
	}
}

// What is made of a check, over HTTP or MCP, is in the account of all bodies.
func TestCopiesOfAChecksPartsTakeMemory(t *testing.T) {
	t.Parallel()
	const size = 100_000
	for path, body := range map[string]string{
		CheckPath: `{"prompt":"` + strings.Repeat("a", size) + `"}`,
		mcpPath:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + schemas.MCPCheck + `","arguments":{"tool":"f","session":"` + strings.Repeat("s", size) + `"}}}`,
	} {
		reg := prometheus.NewRegistry()
		bodies := intake.NewBodies(1<<20, reg)
		r, w := keyed(path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		u := bodies.Watch(w, r, 1)
		api := apiOf(t, &decider{})
		api.cfg.Reader.MaxBytes = 2 * size
		api.mcp = api.newMCP()
		api.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if taken := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "unloop_gateway_body_bytes" && taken < float64(3*len(body)) {
				t.Errorf("%s: %.0f bytes are taken for %d and two copies", path, taken, len(body))
			}
		}
		u.Free()
	}
}
