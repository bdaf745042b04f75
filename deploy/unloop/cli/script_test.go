package cli

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"unloop": func() { os.Exit(Main(os.Args[1:])) }})
}

// TestScripts runs command lines with the binary itself, as a user types them. Scripts
// have free addresses in $GATEWAY, $NATS and $ADMIN1 to $ADMIN5, and the command
// ready, which waits until an admin port says that its process is ready.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"GATEWAY", "NATS", "ADMIN1", "ADMIN2", "ADMIN3", "ADMIN4", "ADMIN5"} {
				addr, err := freeAddress()
				if err != nil {
					return err
				}
				env.Setenv(name, addr)
			}
			for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
				env.Setenv(name, env.WorkDir)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ready": ready},
	})
}

// nextPort is the port that is tried next. Systems give out ports from 32768 on by
// themselves, so that no connection takes one below before a script listens on it.
var nextPort atomic.Int32

// freeAddress returns an address on which nobody listens, and which no other script gets.
func freeAddress() (string, error) {
	nextPort.CompareAndSwap(0, 12000+int32(os.Getpid()%2000)*8)
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", nextPort.Add(1))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue // somebody's
		}
		return addr, ln.Close()
	}
	return "", errors.New("no port is free")
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
