package recognize_test

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

func TestToolsThatLook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, arguments string
		want            bool
	}{
		{"http_request", `{"method":"GET","url":"https://example.com/version"}`, true},
		{"http_request", `{"url":"https://example.com/version"}`, true},
		{"http_request", `{"method":"POST","url":"https://example.com/version"}`, false},
		{"browser_navigate", `{"url":"https://example.com"}`, true},
		{"get_order", `{"id":7}`, true},
		{"update_order", `{"id":7}`, false},
	} {
		if is := recognize.TraitsOf(c.tool, []byte(c.arguments)); is.Look != c.want {
			t.Errorf("%s %s looks: %v, want %v", c.tool, c.arguments, is.Look, c.want)
		}
	}
}

func TestErrorsThatMayPass(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"ssh: connect to host vm port 22: Connection refused": true, "Error: 429 Too Many Requests": true, "wget: unable to resolve host": true,
		"sqlite3.OperationalError: database is locked": true, "Error: no such order": false, "FAIL: TestParse": false, "": false,
	} {
		if got := recognize.IsTransient([]byte(text)); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

func TestCommandsThatLook(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{
		"aws cloudformation describe-stacks --stack-name x": true, "aws s3 cp a s3://b": false, "ls out/": true, "ls out/ | wc -l": true, "ls | xargs rm": false,
		"squeue -u me": true, "test -f done && echo yes || echo no": true, "cd app && git fetch": true, "git push": false, "git commit -m 'fetch it'": true,
		"curl -s https://example.com/state": true, "curl -d @a https://example.com": false, "cat build.log": true, "cat main.go": false, "tail -n 3 nohup.out": true,
		"psql -c 'select state from jobs'": true, "psql -c 'update jobs set state = 1'": false, "go test ./...": false, "make && ls": false, "sudo docker logs api": true, "": false,
	} {
		for _, is := range []recognize.Traits{
			recognize.TraitsOf("bash", []byte(`{"command":"`+command+`"}`)), recognize.TextTraitsOf("bash", []byte(command), true),
		} {
			if is.Look != want {
				t.Errorf("%q looks: %v, want %v", command, is.Look, want)
			}
		}
	}
}
