package recognize_test

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

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
