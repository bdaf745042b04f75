// Package email sends messages by SMTP, with STARTTLS or TLS and authentication. Messages
// about one loop or group form a thread.
//
// It reads a bounded part of a server's answers. Its errors contain only their status.
package email

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"mime/quotedprintable"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/bounded"
)

// Security is how a connection is encrypted.
type Security string

// The securities.
const (
	// STARTTLS must be supported by the server.
	STARTTLS Security = "starttls"
	// TLS is used from the start of the connection (port 465).
	TLS Security = "tls"
	// None is no encryption, for relays on the same machine.
	None Security = "none"
)

// Config describes a mailbox and its server.
type Config struct {
	// Host and Port are the server's.
	Host string
	Port int
	// Security is the encryption; "" for STARTTLS.
	Security Security
	// User and Password, if set, authenticate.
	User, Password string
	// From and To are addresses, such as "Unloop <unloop@example.com>".
	From string
	To   []string
	// Template writes the text; nil for a list of the loops.
	Template *render.Template
	// TLSConfig is for servers with private certificates; nil for the default.
	TLSConfig *tls.Config
}

// timeout bounds an attempt whose context has no deadline.
const timeout = 30 * time.Second

// Email is one mailbox.
type Email struct {
	cfg    Config
	dialer *net.Dialer
}

// New returns a sink for the mailbox.
func New(cfg Config, dialer *net.Dialer) *Email { return &Email{cfg, dialer} }

// Close does nothing: each message has a connection of its own.
func (*Email) Close() {}

// Send sends the message.
func (e *Email) Send(ctx context.Context, m *sink.Message) error {
	msg, err := e.message(m)
	if err != nil {
		return sink.Rejectf("the message cannot be written: %s", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var conn connection
	defer conn.close()
	client, err := e.client(ctx, &conn)
	if err != nil {
		return sink.Rejectf("the mail server's settings are not valid")
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return noSession(ctx, err)
	}
	if err := client.SendWithSMTPClient(session, msg); err != nil {
		return failure(ctx, err)
	}
	_ = client.CloseWithSMTPClient(session) // the message is accepted, even if QUIT fails
	return nil
}

// client returns a client whose connection is closed when the context ends: the library observes
// the context only while it dials.
func (e *Email) client(ctx context.Context, conn *connection) (*mail.Client, error) {
	deadline, _ := ctx.Deadline()
	options := []mail.Option{
		mail.WithPort(e.cfg.Port), mail.WithTimeout(max(time.Until(deadline), time.Millisecond)), mail.WithTLSPolicy(mail.TLSMandatory),
		mail.WithDialContextFunc(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return e.dial(ctx, network, conn)
		}),
	}
	if e.cfg.Security == TLS || e.cfg.Security == None {
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if e.cfg.TLSConfig != nil {
		options = append(options, mail.WithTLSConfig(e.cfg.TLSConfig))
	}
	if e.cfg.User != "" {
		options = append(options, mail.WithOpportunisticSMTPAuth(mail.SMTPAuthPlain, mail.SMTPAuthLogin), mail.WithUsername(e.cfg.User), mail.WithPassword(e.cfg.Password))
	}
	conn.stop = context.AfterFunc(ctx, conn.close)
	return mail.NewClient(e.cfg.Host, options...)
}

// dial opens the connection, with TLS unless it starts later or is not used.
func (e *Email) dial(ctx context.Context, network string, conn *connection) (net.Conn, error) {
	c, err := e.dialer.DialContext(ctx, network, net.JoinHostPort(e.cfg.Host, strconv.Itoa(e.cfg.Port)))
	if err != nil {
		return nil, err
	}
	c = conn.open(c)
	if e.cfg.Security != TLS {
		return c, nil
	}
	cfg := &tls.Config{ServerName: e.cfg.Host, MinVersion: tls.VersionTLS12}
	if e.cfg.TLSConfig != nil {
		cfg = e.cfg.TLSConfig
	}
	secure := tls.Client(c, cfg)
	return secure, secure.HandshakeContext(ctx)
}

// noSession returns the error of an attempt without a session. Whatever the server answered, an
// operator can fix it, so a later attempt may succeed.
func noSession(ctx context.Context, err error) error {
	if code := status(err); code >= 400 {
		return &sink.Error{Kind: sink.Retry, Status: code, Reason: "the mail server refused the session"}
	}
	return outbound.Failure(ctx, err)
}

// failure returns the error of a message that was not accepted. Status 5xx is final.
func failure(ctx context.Context, err error) error {
	code := status(err)
	if answer, ok := errors.AsType[*mail.SendError](err); ok {
		code = answer.ErrorCode()
	}
	switch {
	case code >= 500:
		return &sink.Error{Kind: sink.Reject, Status: code, Reason: "the mail server refused the message"}
	case code >= 400:
		return &sink.Error{Kind: sink.Retry, Status: code, Reason: "the mail server does not accept the message now"}
	default:
		return outbound.Failure(ctx, err)
	}
}

// maxSubject bounds the subject, in UTF-16 code units.
const maxSubject = 200

func (e *Email) message(m *sink.Message) (*mail.Msg, error) {
	text, err := e.text(m)
	if err != nil {
		return nil, err
	}
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(e.cfg.From), msg.To(e.cfg.To...)); err != nil {
		return nil, errors.New("an address is not valid")
	}
	subject := "[Unloop] "
	if m.Resolved {
		subject += "Resolved: "
	}
	msg.Subject(subject + render.Cut(render.Title(m), maxSubject))
	msg.SetDateWithValue(m.Time)
	msg.SetMessageIDWithValue(token(m.Endpoint+"\x00"+m.ID) + "@unloop.invalid")
	msg.SetGenHeader("References", "<"+token(m.Endpoint+"\x00"+m.Key)+"@unloop.invalid>")
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Unloop-Id", token(m.ID))
	if quoted(text) > sink.MaxBody {
		// Base64 takes four bytes for three, and a line break for each line.
		text = bounded.Text(text, sink.MaxBody*7/10)
		msg.SetEncoding(mail.EncodingB64)
	}
	msg.SetBodyString(mail.TypeTextPlain, text)
	return msg, nil
}

// quoted returns the length of a text in the encoding of mails, quoted-printable.
func quoted(text string) int {
	var b bytes.Buffer
	w := quotedprintable.NewWriter(&b)
	_, _ = io.WriteString(w, text) // a buffer takes everything
	_ = w.Close()
	return b.Len()
}

// token returns a hash that is valid in an address and a header.
func token(s string) string {
	hash := sha256.Sum256([]byte(s))
	return hex.EncodeToString(hash[:16])
}

func (e *Email) text(m *sink.Message) (string, error) {
	if e.cfg.Template != nil {
		return e.cfg.Template.Render(m)
	}
	return Text(m), nil
}

// Text lists the loops of a message, as many as fit.
func Text(m *sink.Message) string {
	var b strings.Builder
	b.WriteString(render.Title(m) + "\n")
	for i := range m.Events {
		part := "\n" + render.Summary(&m.Events[i]) + "\n"
		for _, f := range render.Fields(&m.Events[i]) {
			part += "  " + f.Name + ": " + f.Value + "\n"
		}
		if link := render.Link(m, &m.Events[i]); link != "" {
			part += "  Look: " + link + "\n"
		}
		if release := render.Release(&m.Events[i]); release != "" {
			part += "  Release: " + release + "\n"
		}
		if b.Len()+len(part) > sink.MaxBody-200 {
			b.WriteString("\n" + render.More(len(m.Events)-i) + "\n")
			break
		}
		b.WriteString(part)
	}
	return b.String()
}
