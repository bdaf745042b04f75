package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// client are the flags of commands that talk to a running Unloop.
type client struct {
	NATS string `name:"nats" default:"nats://127.0.0.1:4222" placeholder:"URL" help:"NATS server of the running Unloop."`
}

// connect connects at once or says why not.
func (c client) connect() (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(c.NATS, nats.Name("unloop-cli"), natskit.WithLocalToken(c.NATS, dataDirs()...))
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, nil, fmt.Errorf("reach NATS: %w; if another user runs it or its token is elsewhere, give it as --nats nats://TOKEN@HOST:PORT; "+
			"the embedded server keeps it in nats.token of its --data-dir", err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reach NATS: %w; is `unloop up` running, or does --nats name another server?", err)
	}
	return streamsOf(nc, nil)
}

// streamsOf opens JetStream on a connection, which it closes if it can't.
func streamsOf(nc *nats.Conn, err error) (*nats.Conn, jetstream.JetStream, error) {
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("open JetStream: %w", err)
	}
	return nc, js, nil
}

// dataDirs are the data folders that the environment names.
func dataDirs() []string {
	if dir := os.Getenv(service.EnvPrefix + "_DATA_DIR"); dir != "" && dir != natskit.InMemory {
		return []string{dir}
	}
	return nil
}

// explain turns JetStream's words for a missing stream into ours.
func explain(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("no Unloop has run on this NATS server yet: %w", err)
	}
	return err
}

// printer remembers the first error of a row of prints.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
