package partition

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/jsanswer"
)

// movedHeader marks a seal: the record has moved to another place, or is about to. Its value
// is the Count of the new scheme.
const movedHeader = "Unloop-Moved"

// maxAttempts bounds the attempts at a move after conflicts.
const maxAttempts = 32

// ErrContended means that other processes wrote the record at each attempt to move it.
var ErrContended = errors.New("record cannot be moved: others write it")

// Mover moves records.
type Mover struct {
	// Ask sends a request and waits for the answer.
	Ask func(ctx context.Context, msg *nats.Msg) ([]byte, error)
	// API returns the subject of a call of JetStream's API, and Record that of a record.
	API    func(call string) string
	Record func(bucket, key string) string
}

// stored is the last message of a key; its sequence is 0 if there is none.
type stored struct {
	seq    uint64
	data   []byte
	ttl    string
	sealed bool
}

// Moved reports whether the raw headers of a stored message are those of a seal.
func Moved(headers []byte) bool { return bytes.Contains(headers, []byte("\r\n"+movedHeader+":")) }

// Move moves a key's record from its former place, unless that is already done. Afterwards no
// process that obeys the scheme writes it there.
func (m Mover) Move(ctx context.Context, s Scheme, bucket, key string) error {
	from, to := s.Former(bucket, key), s.Place(bucket, key)
	if from == "" {
		return nil
	}
	mark := nats.Header{movedHeader: {strconv.Itoa(s.Count)}}
	old, err := stored{}, error(nil)
	known := s.Phase == Sealing // most keys are new, which an attempt shows without a read
	for range maxAttempts {
		if !known {
			if old, err = m.last(ctx, from, key); err != nil {
				return fmt.Errorf("read %s in %s: %w", key, from, err)
			}
		}
		known = false
		done, err := m.attempt(ctx, s, old, from, to, key, mark)
		if !errors.Is(err, jsanswer.ErrConflict) && (done || err != nil) {
			return err
		}
	}
	return fmt.Errorf("%w: %s", ErrContended, key)
}

// attempt moves a record, given its last message at the former place.
func (m Mover) attempt(ctx context.Context, s Scheme, old stored, from, to, key string, mark nats.Header) (done bool, err error) {
	switch {
	case old.sealed && len(old.data) == 0:
		return true, nil
	case len(old.data) == 0: // there is none, or it was deleted
		if s.Phase == Sealing {
			_, err = m.put(ctx, from, key, nil, old.seq, seconds(SealTime), mark)
		}
		return true, err
	case !old.sealed:
		if old.seq, err = m.put(ctx, from, key, old.data, old.seq, old.ttl, mark); err != nil {
			return false, err
		}
	}
	// The new record outlives the seal, since its TTL starts later. If it exists, an earlier
	// move was not finished.
	if _, err = m.put(ctx, to, key, old.data, 0, old.ttl, nil); err != nil && !errors.Is(err, jsanswer.ErrConflict) {
		return false, err
	}
	_, err = m.put(ctx, from, key, nil, old.seq, seconds(SealTime), mark)
	return true, err
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }

// put writes a message if the key's last one still has the given sequence.
func (m Mover) put(ctx context.Context, bucket, key string, data []byte, seq uint64, ttl string, mark nats.Header) (uint64, error) {
	msg := &nats.Msg{Subject: m.Record(bucket, key), Data: data, Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(seq, 10)}}}
	maps.Copy(msg.Header, mark)
	if ttl != "" {
		msg.Header[jetstream.MsgTTLHeader] = []string{ttl}
	}
	answer, err := m.Ask(ctx, msg)
	var written uint64
	if err == nil {
		written, err = jsanswer.Sequence(answer)
	}
	if err != nil {
		return 0, fmt.Errorf("write %s to %s: %w", key, bucket, err)
	}
	return written, nil
}

// last returns the last message of a key, as the stream's leader has it.
func (m Mover) last(ctx context.Context, bucket, key string) (stored, error) {
	ask, err := json.Marshal(map[string]string{"last_by_subj": "$KV." + bucket + "." + key})
	if err != nil {
		return stored{}, err
	}
	answer, err := m.Ask(ctx, &nats.Msg{Subject: m.API("STREAM.MSG.GET.KV_" + bucket), Data: ask})
	if err != nil {
		return stored{}, err
	}
	last, err := jsanswer.Stored(answer)
	return stored{last.Sequence, last.Data, header(last.Headers, jetstream.MsgTTLHeader), Moved(last.Headers)}, err
}

// header returns a header of a stored message.
func header(stored []byte, name string) string {
	_, lines, _ := bytes.Cut(stored, []byte("\r\n")) // behind the version
	all, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(lines))).ReadMIMEHeader()
	if err != nil {
		return "" // it was not written by Unloop
	}
	return all.Get(name)
}
