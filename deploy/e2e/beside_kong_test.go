package e2e

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"go.yaml.in/yaml/v3"
)

// kong runs the functions of the example as Kong does, with the parts of its API that they use.
type kong struct {
	code string
	// modules are those which the example says that its functions must be allowed to load.
	modules []string
}

// readKong reads the example, which asks a gateway.
func readKong(t *testing.T, unloop string) *kong {
	t.Helper()
	text, err := os.ReadFile("../beside/kong/kong.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Services []struct {
			Plugins []struct {
				Name   string
				Config struct{ Access []string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	plugin := all.Services[0].Plugins[0]
	allowed := regexp.MustCompile(`KONG_UNTRUSTED_LUA_SANDBOX_REQUIRES=(\S+)`).FindSubmatch(text)
	if plugin.Name != "pre-function" || len(allowed) == 0 {
		t.Fatalf("%+v, which may load %q", plugin, allowed)
	}
	return &kong{strings.ReplaceAll(strings.Join(plugin.Config.Access, "\n"), "http://127.0.0.1:8080", unloop), strings.Split(string(allowed[1]), ",")}
}

// send returns the answer of the functions to a request; the zero answer lets it pass.
func (k *kong) send(t *testing.T, c call) (exit answered) {
	t.Helper()
	l := lua.NewState()
	defer l.Close()
	text := func(s string) lua.LGFunction {
		return func(l *lua.LState) int { l.Push(lua.LString(s)); return 1 }
	}
	request := l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"get_raw_body": text(c.body), "get_path_with_query": text(c.path), "get_method": text(c.method),
		"get_header": func(l *lua.LState) int {
			if value := c.header.Get(l.CheckString(1)); value != "" {
				l.Push(lua.LString(value))
				return 1
			}
			return 0
		},
	})
	response := l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{"exit": func(l *lua.LState) int {
		exit = answered{l.CheckInt(1), luaHeaders(l.CheckTable(3)), []byte(l.CheckString(2))}
		return 0
	}})
	api := l.NewTable()
	api.RawSetString("request", request)
	api.RawSetString("response", response)
	l.SetGlobal("kong", api)
	for _, name := range k.modules {
		l.PreloadModule(name, restyHTTP(t))
	}
	if err := l.DoString(k.code); err != nil {
		t.Fatal(err)
	}
	return exit
}

// restyHTTP has the functions of lua-resty-http that the example calls.
func restyHTTP(t *testing.T) lua.LGFunction {
	transport := &http.Transport{DisableKeepAlives: true}
	client := map[string]lua.LGFunction{
		"set_timeout": func(*lua.LState) int { return 0 },
		"request_uri": func(l *lua.LState) int {
			options := l.CheckTable(3)
			r, err := http.NewRequestWithContext(t.Context(), lua.LVAsString(options.RawGetString("method")), l.CheckString(2), strings.NewReader(lua.LVAsString(options.RawGetString("body"))))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = luaHeaders(options.RawGetString("headers").(*lua.LTable))
			res, err := transport.RoundTrip(r)
			if err != nil {
				l.Push(lua.LNil)
				l.Push(lua.LString(err.Error()))
				return 2
			}
			defer func() { _ = res.Body.Close() }()
			body, _ := io.ReadAll(res.Body)
			answer := l.NewTable()
			answer.RawSetString("status", lua.LNumber(res.StatusCode))
			answer.RawSetString("body", lua.LString(body))
			l.Push(answer)
			return 1
		},
	}
	return func(l *lua.LState) int {
		module := l.NewTable()
		module.RawSetString("new", l.NewFunction(func(l *lua.LState) int { l.Push(l.SetFuncs(l.NewTable(), client)); return 1 }))
		l.Push(module)
		return 1
	}
}

func luaHeaders(table *lua.LTable) http.Header {
	h := http.Header{}
	table.ForEach(func(name, value lua.LValue) { h.Set(lua.LVAsString(name), lua.LVAsString(value)) })
	return h
}

// The function of Kong's example stops the sixth equal prompt in the format of its path, and passes
// requests while Unloop is away.
func TestKongsFunctionStopsALoop(t *testing.T) {
	t.Parallel()
	s, stop := startStoppable(t, echo(t))
	k := readKong(t, s.URL())
	request := call{http.MethodPost, "/v1/messages?beta=true", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hello."}]}`, http.Header{"Authorization": {"Bearer sk-one"}, "X-Session-Id": {"run-1"}}}
	for n := range 5 {
		if got := k.send(t, request); got.status != 0 {
			t.Fatalf("request %d: %d %s", n, got.status, got.body)
		}
	}
	if got := k.send(t, request); got.status != http.StatusTooManyRequests || got.header.Get("X-Should-Retry") != "false" || !strings.HasPrefix(string(got.body), `{"type":"error","error":{"type":"rate_limit_error"`) {
		t.Errorf("the sixth: %d %v %s", got.status, got.header, got.body)
	}
	direct := request
	direct.path = "/v1/messages"
	if got := send(t, s.URL(), direct); got.header.Get("X-Loop-Action") != "reject" {
		t.Errorf("the same run at the gateway: %d %v", got.status, got.header)
	}
	stop()
	if got := k.send(t, request); got.status != 0 {
		t.Errorf("while Unloop is away: %d %s", got.status, got.body)
	}
}
