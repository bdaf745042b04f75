package checkapi

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/share/bytetime"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/client"
)

// Checks are read in one pass, over HTTP and as calls of MCP's tools. The test runs alone,
// since it measures.
func TestTheTimeForEachByteOfACheckIsBounded(t *testing.T) {
	api := apiOf(t, &decider{decision: client.Decision{Action: "allow"}, run: client.ToolDecision{Action: "allow"}})
	api.cfg.Reader.MaxBytes = 64 << 20
	api.mcp = api.newMCP()
	read := func(path string, status int) bytetime.Reader {
		return func(body []byte) int {
			r := keyed(path, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("X-Session-Id", "s")
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if w.Code != status || path == mcpPath && !strings.Contains(w.Body.String(), "structuredContent") {
				t.Errorf("%s: status %d: %.200s", path, w.Code, w.Body)
			}
			return len(body)
		}
	}
	prose := map[string]string{"prose": "The quick brown fox jumps over the lazy dog. "}
	strange := map[string]string{"escapes": `\"`, "backslashes": `\\`, "characters": `漢字`, "surrogates": `\ud800`, "pairs": `\ud83d\ude00`, "spaces": " ", "brackets": "[] "}
	lists := map[string]string{"lists": strings.Repeat("[", 200) + strings.Repeat("]", 200) + ",", "objects": strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + ",", "numbers": "1,", "messages": `{"role":"user","content":"a"},`}
	bytetime.Check(t, read(CheckPath, http.StatusOK), bytetime.Repeated(`{"prompt":"`, `"}`, prose), bytetime.Repeated(`{"prompt":"`, `"}`, strange))
	bytetime.Check(t, read(CheckPath, http.StatusOK), bytetime.Repeated(`{"tool":"f","result":"`, `"}`, prose), bytetime.Repeated(`{"tool":"f","result":"`, `"}`, strange))
	for _, field := range []string{`{"messages":[`, `{"path":"/v1/x","body":[`, `{"tool":"f","arguments":[`} {
		bytetime.Check(t, read(CheckPath, http.StatusOK), bytetime.Repeated(field+`"`, `"]}`, prose), bytetime.Repeated(field, `0]}`, lists))
	}
	bytetime.Check(t, read(CheckPath, http.StatusBadRequest), bytetime.Repeated(`{"path":"`, `"}`, prose), bytetime.Repeated(`{"`, `":1}`, prose))
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + schemas.MCPCheck + `","arguments":{"tool":"f","arguments":`
	bytetime.Check(t, read(mcpPath, http.StatusOK), bytetime.Repeated(call+`"`, `"}}}`, prose), bytetime.Repeated(call+`"`, `"}}}`, strange))
	bytetime.Check(t, read(mcpPath, http.StatusOK), bytetime.Repeated(call+`["`, `"]}}}`, prose), bytetime.Repeated(call+`[`, `0]}}}`, lists))
}
