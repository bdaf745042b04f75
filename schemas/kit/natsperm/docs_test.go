package natsperm

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/nats.md")

const (
	page       = "../../../docs/nats.md"
	begins     = "<!-- permissions: begin -->\n"
	ends       = "<!-- permissions: end -->"
	tableStart = "\n| may | subjects | to |\n|---|---|---|\n"
)

// table returns the tables of all users.
func table() string {
	var b strings.Builder
	for _, u := range Users() {
		fmt.Fprintf(&b, "\n**%s.** %s\n%s", u.Name, u.Does, tableStart)
		for _, side := range []struct {
			does string
			all  []Permission
		}{{"publish", u.Publish}, {"subscribe", u.Subscribe}} {
			for _, p := range side.all {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", side.does, "`"+strings.Join(p.Subjects, "` `")+"`", p.Why)
			}
		}
	}
	return b.String() + "\n"
}

// The page on NATS lists what users may do. `go -C schemas/kit test ./natsperm -update`
// writes it.
func TestTheDocumentationListsThePermissions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begins)
	got, after, also := strings.Cut(rest, ends)
	if !ok || !also {
		t.Fatal("the marks of the tables are missing")
	}
	want := table()
	if *update {
		if err := os.WriteFile(page, []byte(before+begins+want+ends+after), 0o644); err != nil { //nolint:gosec // a page of the documentation
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("docs/nats.md has\n%s\nwant\n%s", got, want)
	}
}

// No user has all subjects of a kind, and none but its own inboxes.
func TestUsersHaveNoMoreThanTheyNeed(t *testing.T) {
	t.Parallel()
	for _, u := range Users() {
		if inboxes := slices.DeleteFunc(u.MaySubscribe(), func(s string) bool { return !strings.HasPrefix(s, "_INBOX") }); !slices.Equal(inboxes, []string{InboxPrefix(u.Name) + ".>"}) {
			t.Errorf("%s may read the inboxes %v", u.Name, inboxes)
		}
		for _, subject := range append(u.MayPublish(""), u.MaySubscribe()...) {
			switch subject {
			case ">", "*", "loop.>", "$KV.>", "$JS.>", "$JS.API.>", "$JS.API.STREAM.>", "$JS.API.CONSUMER.>", "$JS.ACK.>", "_INBOX.>":
				t.Errorf("%s may use %s", u.Name, subject)
			}
		}
		if in := u.MayPublish("hub"); u.Name != Embedworker && !slices.ContainsFunc(in, func(s string) bool {
			return strings.HasPrefix(s, "$JS.hub.API.STREAM.INFO.") || strings.HasPrefix(s, "$JS.hub.API.INFO")
		}) {
			t.Errorf("%s may not use the domain's API: %v", u.Name, in)
		}
	}
}
