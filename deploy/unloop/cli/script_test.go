package cli

import (
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/unloop/unloop/schemas/kit/freeport"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"unloop": func() { os.Exit(Main(os.Args[1:])) }})
}

// TestScripts runs command lines with the binary itself, as a user types them. Scripts
// have free addresses in $GATEWAY, $NATS and $ADMIN1 to $ADMIN5, and the command
// ready, which waits until an admin port says that its process is ready; until PATTERN COMMAND…
// runs a command until its standard output matches: on a busy machine a part may answer later
// than the command waits.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"GATEWAY", "NATS", "ADMIN1", "ADMIN2", "ADMIN3", "ADMIN4", "ADMIN5"} {
				addr, release, err := freeport.Reserve()
				if err != nil {
					return err
				}
				env.Defer(release)
				env.Setenv(name, addr)
			}
			for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
				env.Setenv(name, env.WorkDir)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ready": ready, "until": untilPrinted},
	})
}

// ready waits until the admin ports at the given addresses say that all is ready.
func ready(ts *testscript.TestScript, _ bool, addrs []string) {
	deadline := time.Now().Add(time.Minute)
	for _, addr := range addrs {
		for status := 0; status != http.StatusOK; {
			if time.Now().After(deadline) {
				ts.Fatalf("%s is not ready: status %d", addr, status)
			}
			res, err := http.Get("http://" + addr + "/readyz")
			if err != nil {
				<-time.After(10 * time.Millisecond)
				continue
			}
			status = res.StatusCode
			ts.Check(res.Body.Close())
		}
	}
}

// untilPrinted runs a command again and again until what it prints matches a pattern.
func untilPrinted(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND…")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(time.Minute); ; {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && re.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not print %s: %v", args[1], args[0], err)
		}
	}
}
