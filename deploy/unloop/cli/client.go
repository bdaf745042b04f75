package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/storepb"
)

// client has the flags of commands that connect to a running Unloop.
type client struct {
	NATS             string `name:"nats" group:"nats" default:"${default_nats}" placeholder:"URL" help:"NATS server of the running Unloop."`
	natskit.Settings `group:"nats"`
	service.Sealed   `group:"nats"`
	SealSeed         string `group:"nats" placeholder:"FILE" help:"File with the operator's seed (SO…), which signs policies, blocks and exemptions."`
}

// signer returns the signer of the seed, nil without one.
func (c client) signer() (*seal.Signer, error) {
	if c.SealSeed == "" {
		return nil, nil
	}
	by, err := seal.ReadSigner(c.SealSeed)
	if err != nil {
		return nil, fmt.Errorf("--seal-seed: %w", err)
	}
	return by, nil
}

// trust accepts records that are sealed with the given keys or by the command itself.
func (c client) trust() (seal.Trust, error) {
	by, err := c.signer()
	if err != nil {
		return seal.Trust{}, err
	}
	if by != nil {
		c.SealKey = append(slices.Clone(c.SealKey), by.Public())
	}
	return c.Trust()
}

// defaultNATS is the default address of the NATS server of `unloop up`.
const defaultNATS = "nats://127.0.0.1:4222"

// refusalKey is the context key of the function that ends a command when the server
// refuses its request.
type refusalKey struct{}

// endsRefused returns a context that ends, with the cause natskit.ErrRefused, when the server
// refuses a request of the command.
func endsRefused(ctx context.Context) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	return context.WithValue(ctx, refusalKey{}, end)
}

// connect opens JetStream on a new connection, which the caller closes. If the server
// refuses a request on it, the command ends.
func (c client) connect(ctx context.Context) (jetstream.JetStream, error) {
	end, _ := ctx.Value(refusalKey{}).(context.CancelCauseFunc) // nil if nobody waits for it
	return c.open(end)
}

// unheard ignores refusals, for commands that go on without what the server refuses.
func unheard(error) {}

// open is connect with a function that gets each refusal. If the server cannot be reached,
// the error says what to do.
func (c client) open(refused func(error)) (jetstream.JetStream, error) {
	js, err := c.dial("unloop-cli", refused)
	switch {
	case errors.Is(err, natskit.ErrSettings), errors.Is(err, natskit.ErrCredentials):
		return nil, err
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("reach NATS: %w; if another user runs it or its token is elsewhere, give it as --nats nats://TOKEN@HOST:PORT; "+
			"the embedded server keeps it in nats.token of its --data-dir; to servers that have users, identify as one, such as with the variables of operator.env", err)
	case err != nil:
		return nil, fmt.Errorf("reach NATS: %w; is `unloop up` running, or does --nats name another server?", err)
	}
	return js, nil
}

// with calls use with JetStream on a connection of its own.
func (c client) with(ctx context.Context, use func(js jetstream.JetStream) error) error {
	js, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	return use(js)
}

// dial opens JetStream on a new connection of this name.
func (c client) dial(name string, refused func(error)) (jetstream.JetStream, error) {
	nc, err := c.Dial(c.NATS, name, refused, dataDirs()...)
	if err != nil {
		return nil, err
	}
	return c.JetStream(nc)
}

// dataDirs returns the data folder that the environment names, if any.
func dataDirs() []string {
	if dir := os.Getenv(service.EnvPrefix + "_DATA_DIR"); dir != "" && dir != natskit.InMemory {
		return []string{dir}
	}
	return nil
}

// sealed returns the values in force in a bucket of sealed records. It skips those that are
// not JSON.
func sealed[T any](ctx context.Context, js jetstream.JetStream, trust seal.Trust, bucket string) ([]T, error) {
	entries, err := natskit.StoredEntries(ctx, js, bucket, ">")
	if err != nil {
		return nil, explain(err)
	}
	inForce := &seal.Register{Trust: trust, Bucket: bucket}
	inForce.Take(entries, true)
	all, seen := []T{}, map[string]bool{}
	for _, e := range entries {
		var v T
		if content, ok := inForce.Content(e.Key()); ok && !seen[e.Key()] && json.Unmarshal(content, &v) == nil {
			all = append(all, v)
		}
		seen[e.Key()] = true
	}
	return all, nil
}

// stored returns the values of a bucket. It skips those that cannot be read.
func stored[T any](ctx context.Context, js jetstream.JetStream, bucket string) ([]T, error) {
	all := []T{}
	records, err := natskit.Records(ctx, js, bucket, ">")
	if err != nil {
		return nil, explain(err)
	}
	for _, r := range records {
		var v T
		if storepb.Read(r.Value, &v) == nil {
			all = append(all, v)
		}
	}
	return all, nil
}

// explain adds the reason to JetStream's error for a missing stream.
func explain(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("no Unloop has run on this NATS server yet: %w", err)
	}
	return err
}
