package natskit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// directBatch is the batch size of a direct get.
const directBatch = 256

// directWithin bounds the wait for the answers to one direct get.
const directWithin = 5 * time.Second

// DirectGet reads the messages of a stream in order. It needs no consumer, which read-only
// users can't create.
type DirectGet struct {
	// From is the sequence of the first message; 0 to begin at Since.
	From  uint64
	Since time.Time
	// Subject selects messages; "" takes all.
	Subject string
}

// Stored is a message of a stream.
type Stored struct {
	*nats.Msg
	Subject  string
	Sequence uint64
	At       time.Time
}

// Ask yields one batch of messages; none if there are no more yet. An error comes last.
func (g DirectGet) Ask(ctx context.Context, js jetstream.JetStream, stream string) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, directWithin)
		defer cancel()
		answers, err := g.send(js, stream)
		if err != nil {
			yield(Stored{}, err)
			return
		}
		defer func() { _ = answers.Unsubscribe() }() // a closed connection has no subscriptions
		for {
			msg, err := answers.NextMsgWithContext(ctx)
			if err != nil {
				yield(Stored{}, err)
				return
			}
			status := msg.Header.Get("Status")
			if served(msg, jetstream.SequenceHeader) != "" {
				status = "" // a message may have been stored with one
			}
			switch status {
			case "":
				one, err := readStored(msg)
				if !yield(one, err) || err != nil {
					return
				}
			case "204", "404": // the end of the answer, or no message
				return
			default:
				yield(Stored{}, fmt.Errorf("the server answers %s %s", status, msg.Header.Get("Description")))
				return
			}
		}
	}
}

// send sends the request and returns the subscription for its answers.
func (g DirectGet) send(js jetstream.JetStream, stream string) (*nats.Subscription, error) {
	ask := map[string]any{"batch": directBatch}
	if g.From > 0 {
		ask["seq"] = g.From
	} else {
		ask["start_time"] = g.Since
	}
	if g.Subject != "" {
		ask["next_by_subj"] = g.Subject
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	nc := js.Conn()
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest(APISubject(js, "DIRECT.GET."+stream), inbox, body); err != nil {
		return nil, errors.Join(err, answers.Unsubscribe())
	}
	return answers, nil
}

// served returns the value of a header that the server added, the last one: the stored
// message may have others of the same name.
func served(msg *nats.Msg, header string) string {
	all := msg.Header[header]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func readStored(msg *nats.Msg) (Stored, error) {
	seq, err := strconv.ParseUint(served(msg, jetstream.SequenceHeader), 10, 64)
	at, also := time.Parse(time.RFC3339Nano, served(msg, jetstream.TimeStampHeaer))
	if err := errors.Join(err, also); err != nil {
		return Stored{}, fmt.Errorf("an answer without its place in the stream: %w", err)
	}
	return Stored{Msg: msg, Subject: served(msg, jetstream.SubjectHeader), Sequence: seq, At: at}, nil
}

// Record is a stored record of a bucket.
type Record struct {
	Key   string
	Value []byte
}

// Deletes reports whether a message is a tombstone.
func (m Stored) Deletes() bool {
	return m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
}

// Messages yields the messages of a bucket whose keys match a subject such as ">", oldest
// first. An error comes last.
func Messages(ctx context.Context, js jetstream.JetStream, bucket, keys string) iter.Seq2[Stored, error] {
	return messagesFrom(ctx, js, bucket, keys, 1)
}

func messagesFrom(ctx context.Context, js jetstream.JetStream, bucket, keys string, from uint64) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		get := DirectGet{From: from, Subject: "$KV." + bucket + "." + keys}
		for {
			before := get.From
			for msg, err := range get.Ask(ctx, js, BucketStream(bucket)) {
				if err != nil {
					yield(Stored{}, fmt.Errorf("read bucket %s: %w", bucket, missing(err)))
					return
				}
				if get.From = msg.Sequence + 1; !yield(msg, nil) {
					return
				}
			}
			if get.From == before { // nothing more
				return
			}
		}
	}
}

// Records reads the records of a bucket whose keys match a subject such as ">", by direct
// gets. A record that is written meanwhile appears once, in its last version.
func Records(ctx context.Context, js jetstream.JetStream, bucket, keys string) ([]Record, error) {
	prefix := "$KV." + bucket + "."
	found, order := map[string]Stored{}, []string{}
	for msg, err := range Messages(ctx, js, bucket, keys) {
		if err != nil {
			return nil, err
		}
		if _, known := found[msg.Subject]; !known {
			order = append(order, msg.Subject)
		}
		found[msg.Subject] = msg
	}
	var all []Record
	for _, subject := range order {
		if msg := found[subject]; !msg.Deletes() {
			all = append(all, Record{strings.TrimPrefix(subject, prefix), msg.Data})
		}
	}
	return all, nil
}

// missing converts the error for a stream that does not exist.
func missing(err error) error {
	if errors.Is(err, nats.ErrNoResponders) {
		return jetstream.ErrBucketNotFound
	}
	return err
}
