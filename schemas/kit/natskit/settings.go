package natskit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Settings are the flags for connections to NATS servers, except their addresses. The zero
// value has no credentials and NATS's default names.
//
// Files are read again for each connection, so that a new secret needs no restart.
type Settings struct {
	Creds        string `name:"nats-creds" placeholder:"FILE" help:"NATS credentials file (JWT and seed)."`
	NKey         string `name:"nats-nkey" placeholder:"FILE" help:"File with the nkey seed for NATS servers."`
	UserFile     string `name:"nats-user-file" placeholder:"FILE" help:"File with the user name for NATS servers; needs --nats-password-file."`
	PasswordFile string `name:"nats-password-file" placeholder:"FILE" help:"File with the password for NATS servers."`
	TLSCA        string `name:"nats-tls-ca" placeholder:"FILE" help:"PEM file with the CA certificates of NATS servers. Default: the system's."`
	TLSCert      string `name:"nats-tls-cert" placeholder:"FILE" help:"PEM file with the client certificate for NATS servers; needs --nats-tls-key."`
	TLSKey       string `name:"nats-tls-key" placeholder:"FILE" help:"PEM file with the client certificate's private key."`
	Domain       string `name:"nats-domain" placeholder:"NAME" help:"JetStream domain of the streams, for leaf nodes."`
	InboxPrefix  string `name:"nats-inbox-prefix" placeholder:"PREFIX" help:"Prefix of this process's reply subjects, for users that may read no others. Default: _INBOX."`
}

// Errors of settings.
var (
	// ErrSettings means that flags contradict each other or have no valid value.
	ErrSettings = errors.New("NATS flags")
	// ErrCredentials means that a file with credentials or certificates can't be used.
	ErrCredentials = errors.New("NATS credentials")
)

var (
	domainForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	inboxForm  = regexp.MustCompile(`^[A-Za-z0-9_$-]+(\.[A-Za-z0-9_$-]+)*$`)
)

// maxInboxPrefix bounds the prefix of inboxes, in bytes: each request has it.
const maxInboxPrefix = 128

// IsZero reports whether no flag is set.
func (s Settings) IsZero() bool { return s == Settings{} }

// Check validates the flags for the servers at addr without connecting: contradictions, and
// unusable files.
func (s Settings) Check(addr string) error {
	if err := s.contradictions(addr); err != nil {
		return err
	}
	_, err := s.options()
	return err
}

// contradictions returns every fault of the flags, without reading files.
func (s Settings) contradictions(addr string) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrSettings}, args...)...))
	}
	if ways := s.identities(); len(ways) > 1 {
		fault("%s all set the identity of this process: keep one of them", strings.Join(ways, " and "))
	} else if len(ways) == 1 && hasUser(addr) {
		fault("the URL in --nats has credentials, and %s sets others: keep one of them", ways[0])
	}
	for _, one := range []struct{ flag, value, needed, has string }{
		{"--nats-password-file", s.PasswordFile, "--nats-user-file", s.UserFile}, {"--nats-user-file", s.UserFile, "--nats-password-file", s.PasswordFile},
		{"--nats-tls-cert", s.TLSCert, "--nats-tls-key", s.TLSKey}, {"--nats-tls-key", s.TLSKey, "--nats-tls-cert", s.TLSCert},
	} {
		if one.value != "" && one.has == "" {
			fault("%s needs %s", one.flag, one.needed)
		}
	}
	if s.Domain != "" && !domainForm.MatchString(s.Domain) {
		fault("--nats-domain %q must have 1 to 64 letters, digits, - and _", s.Domain)
	}
	if s.InboxPrefix != "" && (len(s.InboxPrefix) > maxInboxPrefix || !inboxForm.MatchString(s.InboxPrefix)) {
		fault("--nats-inbox-prefix %q must be words of letters, digits, -, _ and $, joined by dots, such as _INBOX_gateway; at most %d bytes", s.InboxPrefix, maxInboxPrefix)
	}
	return errors.Join(faults...)
}

// User reads the user name and the password from their files.
func (s Settings) User() (user, password string, err error) {
	return readUser(s.UserFile, s.PasswordFile)
}

// identities returns the flags that are set and authenticate the process.
func (s Settings) identities() (flags []string) {
	for _, f := range []struct{ flag, value string }{{"--nats-creds", s.Creds}, {"--nats-nkey", s.NKey}, {"--nats-user-file", s.UserFile}} {
		if f.value != "" {
			flags = append(flags, f.flag)
		}
	}
	return flags
}

// hasUser reports whether one of several URLs has credentials.
func hasUser(addrs string) bool {
	for addr := range strings.SplitSeq(addrs, ",") {
		if u, err := url.Parse(strings.TrimSpace(addr)); err == nil && u.User != nil {
			return true
		}
	}
	return false
}

// options returns the client's options. The error has every unusable file.
func (s Settings) options() ([]nats.Option, error) {
	var opts []nats.Option
	var faults []error
	add := func(opt nats.Option, err error) {
		if err != nil {
			faults = append(faults, err)
		} else {
			opts = append(opts, opt)
		}
	}
	if s.Creds != "" {
		add(withCreds(s.Creds))
	}
	if s.NKey != "" {
		add(withNKey(s.NKey))
	}
	if s.UserFile != "" {
		add(withUser(s.UserFile, s.PasswordFile))
	}
	if s.TLSCA != "" {
		add(withAuthorities(s.TLSCA))
	}
	if s.TLSCert != "" {
		add(withCertificate(s.TLSCert, s.TLSKey))
	}
	if s.InboxPrefix != "" {
		add(nats.CustomInboxPrefix(s.InboxPrefix), nil)
	}
	return opts, errors.Join(faults...)
}

// Connect returns a connection that is retried forever, so that services and servers can
// start in any order. It fails only for invalid flags. While no server is connected, sending
// fails at once instead of buffering: late checks are useless.
func (s Settings) Connect(url, name string, log *slog.Logger, opts ...nats.Option) (*Conn, error) {
	if err := s.Check(url); err != nil {
		return nil, err
	}
	c, err := s.connect(url, name, log, opts...)
	if err == nil {
		go c.watch()
	}
	return c, err
}

// connect is Connect without watching the server.
func (s Settings) connect(url, name string, log *slog.Logger, opts ...nats.Option) (*Conn, error) {
	return start(name, log, s, func(handlers ...nats.Option) (*nats.Conn, error) {
		return s.dial(url, options(name), handlers, opts)
	})
}

// Dial connects a command to NATS, without retries. refused, if not nil, is called with an
// ErrRefused for each refused action, which gets no answer. dataDirs are folders in which an
// embedded server may keep its token.
func (s Settings) Dial(url, name string, refused func(error), dataDirs ...string) (*nats.Conn, error) {
	if err := s.Check(url); err != nil {
		return nil, err
	}
	opts := []nats.Option{nats.Name(name)}
	if refused != nil {
		opts = append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if one, ok := refusalOf(err); ok {
				refused(one.Err())
			}
		}))
	}
	if len(s.identities()) == 0 {
		opts = append(opts, WithLocalToken(url, dataDirs...))
	}
	return s.dial(url, opts)
}

// dial reads the files and makes a connection of the client.
func (s Settings) dial(url string, opts ...[]nats.Option) (*nats.Conn, error) {
	all, err := s.options()
	if err != nil {
		return nil, err
	}
	if len(s.identities()) == 0 {
		all = append(all, WithLocalToken(url))
	}
	for _, more := range opts {
		all = append(all, more...)
	}
	nc, err := nats.Connect(url, all...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at --nats: %w", withoutURL(err))
	}
	return nc, nil
}

// RecordSubject returns the subject for writes to a bucket's record. Into a JetStream domain,
// leaf nodes forward only the subjects of its API.
func RecordSubject(js jetstream.JetStream, bucket, key string) string {
	return inDomain(js.Options().Domain, "$KV."+bucket+"."+key)
}

// RecordSubject is RecordSubject for the connection's JetStream.
func (c *Conn) RecordSubject(bucket, key string) string {
	return inDomain(c.settings.Domain, "$KV."+bucket+"."+key)
}

func inDomain(domain, subject string) string {
	if domain == "" {
		return subject
	}
	return "$JS." + domain + ".API." + subject
}

// Domain returns the JetStream domain of the streams; "" without one.
func (c *Conn) Domain() string { return c.settings.Domain }

// API returns the subject of a call of JetStream's API, such as STREAM.INFO.LOOP_EVENTS, in
// the connection's domain.
func (c *Conn) API(call string) string { return apiSubject(c.settings.Domain, call) }

// APISubject is API for a JetStream context.
func APISubject(js jetstream.JetStream, call string) string {
	return apiSubject(js.Options().Domain, call)
}

func apiSubject(domain, call string) string {
	if domain == "" {
		return jetstream.DefaultAPIPrefix + call
	}
	return "$JS." + domain + ".API." + call
}

// JetStream returns the JetStream context of a connection in the domain.
func (s Settings) JetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc)
	if s.Domain != "" {
		js, err = jetstream.NewWithDomain(nc, s.Domain)
	}
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return js, nil
}
