package endpoints

import (
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink/webhook"
	"github.com/unloop/unloop/schemas/policy"
)

// Environment is where secrets are read from.
type Environment struct {
	Getenv   func(string) string
	ReadFile func(string) ([]byte, error)
}

// System is the environment of the process.
func System() Environment { return Environment{os.Getenv, os.ReadFile} }

// reader reads the fields of one endpoint and records their faults.
type reader struct {
	doc *policy.Document
	// path is the endpoint's, such as endpoints[0].
	path    string
	env     Environment
	allowed []netip.Prefix
	faulty  bool
}

func (r *reader) fault(field, message string) {
	r.faulty = true
	r.doc.Fault(r.path+"."+field, message)
}

func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// maxSecret bounds a secret, in bytes.
const maxSecret = 64 << 10

// secret reads the secret of a source, without surrounding white space.
func (r *reader) secret(field string, s Source) string {
	switch {
	case s.Env != "" && s.File != "":
		r.fault(field, "env and file are both set; drop one of them")
		return ""
	case s.Env != "":
		return r.value(field, r.env.Getenv(s.Env), "the environment variable "+s.Env+" is empty or not set")
	case s.File != "":
		text, err := r.env.ReadFile(s.File)
		if err != nil {
			r.fault(field, "the file cannot be read: "+err.Error())
			return ""
		}
		return r.value(field, string(text), "the file "+s.File+" is empty")
	default:
		r.fault(field, "a secret comes from the environment or a file; write {env: NAME} or {file: PATH}")
		return ""
	}
}

func (r *reader) value(field, text, missing string) string {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		r.fault(field, missing)
	case len(text) > maxSecret:
		r.fault(field, fmt.Sprintf("the secret has more than %d bytes", maxSecret))
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }):
		r.fault(field, "the secret has a line break or another control character in it")
	}
	return text
}

func (r *reader) signingKey(field string, s Source) []byte {
	text := r.secret(field, s)
	if text == "" {
		return nil
	}
	key, err := webhook.DecodeSecret(text)
	if err != nil {
		r.fault(field, err.Error()+"; make one with: echo whsec_$(openssl rand -base64 32)")
	}
	return key
}

// password reads the password of a user.
func (r *reader) password(service, user string, s *Source) string {
	switch {
	case s == nil && user == "":
		return ""
	case s == nil:
		r.fault(service+".username", "password is missing; write password: {env: NAME} or {file: PATH}, or drop username")
		return ""
	case user == "":
		r.fault(service+".password", "username is missing; write it, or drop password")
		return ""
	default:
		return r.secret(service+".password", *s)
	}
}

// url parses the address of an HTTP endpoint; it returns nil after a fault.
func (r *reader) url(field, text string) *url.URL {
	if text == "" {
		return nil // a fault is recorded already
	}
	u, err := outbound.ParseURL(text)
	if err == nil {
		err = outbound.CheckHost(u.Hostname(), r.allowed)
	}
	if err != nil {
		r.fault(field, strings.TrimPrefix(err.Error(), "is "))
		return nil
	}
	return u
}

func (r *reader) chat(service string, c *Chat) (string, *render.Template) {
	template := r.template(service+".template", c.Template)
	if u := r.url(service+".url", r.secret(service+".url", c.URL)); u != nil {
		return u.String(), template
	}
	return "", template
}

func (r *reader) template(field, text string) *render.Template {
	if text == "" {
		return nil
	}
	t, err := render.ParseTemplate(text)
	if err != nil {
		r.fault(field, "the template "+err.Error())
	}
	return t
}

func (r *reader) atLeast(field string, d, least time.Duration) {
	if d < least {
		r.fault(field, fmt.Sprintf("must be at least %s", least))
	}
}

func (r *reader) address(field, text string) {
	if _, err := mail.ParseAddress(text); err != nil {
		r.fault(field, "must be an address such as Unloop <unloop@example.com>")
	}
}

// smtpPort is the port of mail submission.
const smtpPort = 587

func (r *reader) server(field, text string) (host string, port int) {
	host, port = text, smtpPort
	if h, p, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			r.fault(field, "must be HOST:PORT, such as smtp.example.com:587")
			return "", 0
		}
		host, port = h, int(n)
	}
	if host == "" || strings.ContainsAny(host, " /@") {
		r.fault(field, "must be HOST:PORT, such as smtp.example.com:587")
	} else if err := outbound.CheckHost(host, r.allowed); err != nil {
		r.fault(field, err.Error())
	}
	return host, port
}
