package anthropic

import (
	"strings"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
)

// fromPath returns the model that a path of Vertex AI names: …/models/NAME:METHOD.
func fromPath(path string) string {
	_, rest, found := strings.Cut(path, "/publishers/anthropic/models/")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, ":")
	return name
}

// metadata reads the user and the session.
func (p *reader) metadata(w *jsonwalk.Walker) error {
	var session string
	err := w.Members(func(name []byte) (err error) {
		switch string(name) {
		case "user_id":
			var composed string
			composed, err = w.String()
			p.Prompt.User, p.Prompt.Session = splitUser(composed)
		case "session_id":
			session, err = w.String()
		}
		return err
	})
	if session != "" {
		p.Prompt.Session = session
	}
	return err
}

// splitUser splits the user id of Claude Code, which contains its session: either
// behind "_session_" or in a JSON object.
func splitUser(id string) (user, session string) {
	if at := strings.LastIndex(id, "_session_"); at > 0 && strings.HasPrefix(id, "user_") {
		return id[:at], id[at+len("_session_"):]
	}
	if !strings.HasPrefix(id, "{") {
		return id, ""
	}
	var device, account string
	err := jsonwalk.Text([]byte(id), func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) (err error) {
			switch string(name) {
			case "device_id":
				device, err = w.String()
			case "account_uuid":
				account, err = w.String()
			case "session_id":
				session, err = w.String()
			}
			return err
		})
	})
	if err != nil || session == "" {
		return id, ""
	}
	return device + "/" + account, session
}
