package scan

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/unloop/unloop/deploy/scan/agents"
)

// However a log writes a result, the request has it as the API's clients write it.
func TestResultsAreWrittenAlike(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`"a \"b\"\n\\ c <é>"`:  `,"content":"a \"b\"\n\\ c <é>"`,
		`"\u00e9\u003c\u000a"`: `,"content":"é<\n"`,
		`"a\/b"`:               `,"content":"a/b"`,
		"\"a\xff\"":            `,"content":"a` + "\uFFFD" + `"`,
		`""`:                   "",
		`null`:                 "",
		`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`: `,"content":"a\nb"`,
	} {
		path := filepath.Join(t.TempDir(), "a.jsonl")
		line := `{"parentUuid":null,"sessionId":"s","type":%q,"message":{"role":%[1]q,%s}}` + "\n"
		call := `"id":"m%d","content":[{"type":"tool_use","id":"c","name":"sh","input":{}}]`
		result := `{"type":"tool_result","tool_use_id":"c","content":` + content + `,"is_error":true}`
		writeFile(t, path, fmt.Sprintf(line, "user", `"content":"go"`)+fmt.Sprintf(line, "assistant", fmt.Sprintf(call, 1))+
			fmt.Sprintf(line, "user", `"content":[`+result+`,`+result+`]`)+fmt.Sprintf(line, "assistant", fmt.Sprintf(call, 2)))
		got := ""
		for q, err := range open(File{Path: path, Agent: agents.All[0]}) {
			if err != nil {
				t.Fatal(err)
			}
			if q.Answer == nil {
				got = string(q.Added[len(q.Added)-1])
			}
		}
		written := `{"type":"tool_result","tool_use_id":"c"` + want + `,"is_error":true}`
		if full := `{"role":"user","content":[` + written + "," + written + `]}`; got != full {
			t.Errorf("%s:\ngot  %s\nwant %s", content, got, full)
		}
	}
}
