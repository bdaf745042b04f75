package outcome

import (
	"strings"

	"github.com/unloop/unloop/schemas/checkpb"
)

// Look says where people can look at loops and release them.
type Look struct {
	// Page is the URL of the dashboard; "" for none.
	Page string
	// PageAlone says that commands can't reach the loops, as in a process whose NATS server
	// does not listen.
	PageAlone bool
}

// of says how people can look at the loop of a finding and release it; "" if the loop has no
// id.
func (l Look) of(f *checkpb.Finding) string {
	id := f.GetLoopId()
	if id == "" {
		return ""
	}
	var places []string
	if l.Page != "" {
		places = append(places, strings.TrimRight(l.Page, "/")+"/#loop="+id)
	}
	if l.Page == "" || !l.PageAlone {
		places = append(places, "`unloop loops show "+id+"`")
	}
	look := " See " + strings.Join(places, " or ")
	switch {
	case !f.GetAction().Stops():
		return look + "."
	case l.Page != "" && l.PageAlone:
		return look + ", where it can be released."
	}
	return look + ", let through with `unloop loops release " + id + "`."
}
