package natsperm

import (
	"slices"
	"strings"
	"testing"
)

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

// A region's link carries its own copies, and none of what services say to each other.
func TestALinkCarriesCopiesAlone(t *testing.T) {
	t.Parallel()
	link := Link("eu", "hub")
	for _, subject := range append(link.MayPublish(""), link.MaySubscribe()...) {
		if !slices.ContainsFunc([]string{"$JS.hub.API.CONSUMER.", "$JS.eu.API.", "$JS.FC.", "$JSC.R.", "loop.region.eu."}, func(prefix string) bool { return strings.HasPrefix(subject, prefix) }) {
			t.Errorf("it carries %s", subject)
		}
	}
}
