package images

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/natsconfig"
	"github.com/unloop/unloop/schemas/kit/natsperm"
)

var update = flag.Bool("update", false, "write nats.conf anew")

// natsHeader begins nats.conf, with the limits that `unloop nats config` does not write.
const natsHeader = `# NATS for compose.yaml: what ` + "`unloop nats config`" + ` writes for one server, with passwords of
# the environment in place of nkeys. docs/nats.md says what each user may do.
#
# go -C deploy test ./images -run NATSConfiguration -update writes it anew.
max_connections: 1000
`

var (
	nkey     = regexp.MustCompile(`nkey: U[A-Z2-7]+`)
	comments = regexp.MustCompile(`^(#.*\n)+`)
)

// TestNATSConfigurationIsTheGeneratedOne expects nats.conf to be what `unloop nats config`
// writes, but that users have passwords.
func TestNATSConfigurationIsTheGeneratedOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node := natsconfig.Node{Name: "unloop", Host: "nats", ClientPort: 4222, MonitorPort: 8222}
	_, err := natsconfig.Config{Nodes: []natsconfig.Node{node}, Listen: "0.0.0.0", StoreDir: "/data", MaxFileStore: "10GB", Replicas: 1}.
		Write(dir, natsconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var users, readers []string
	for _, u := range natsperm.Users() {
		if u.Reads {
			readers = append(readers, u.Name)
		} else {
			users = append(users, u.Name)
		}
	}
	users = append(append(users, readers...), natsconfig.SystemUser)
	text := nkey.ReplaceAllStringFunc(read(t, filepath.Join(dir, natsconfig.ServerFile(node))), func(string) string {
		user := users[0]
		users = users[1:]
		return "user: " + user + ", password: $NATS_" + strings.ToUpper(user) + "_PASSWORD"
	})
	want := natsHeader + comments.ReplaceAllString(text, "")
	if *update {
		if err := os.WriteFile("nats.conf", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "nats.conf") != want || len(users) > 0 {
		t.Errorf("nats.conf is not what unloop nats config writes; write it anew with: go -C deploy test ./images -run NATSConfiguration -update")
	}
}
