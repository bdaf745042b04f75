package natskit

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// pageWithin is the time after which a page is asked for again. A server with ten million keys
// takes some seconds.
const pageWithin = 30 * time.Second

// walker says how pages follow each other: overlap is how many keys one has in common with
// the page before, and back by how many more its offset goes back if so many keys have expired
// that there is none.
type walker struct{ overlap, back int }

// usualWalker is for the pages of servers.
var usualWalker = walker{overlap: 1_000, back: 50_000}

// page is a part of a bucket's keys in their order.
type page struct {
	keys []string
	// total is how many keys there were in all.
	total int
}

// askPage returns the keys of a bucket from an offset on, as the leader of its stream has them: up
// to 100,000.
func askPage(ctx context.Context, js jetstream.JetStream, bucket string, offset int) (p page, err error) {
	prefix := "$KV." + bucket + "."
	ask, err := json.Marshal(map[string]any{"subjects_filter": prefix + ">", "offset": offset})
	if err != nil {
		return page{}, err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		Total int                 `json:"total"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err = answered(ctx, pageWithin, func(ctx context.Context) error {
		msg, err := js.Conn().RequestWithContext(ctx, APISubject(js, "STREAM.INFO."+BucketStream(bucket)), ask)
		if err != nil {
			return err
		}
		return json.Unmarshal(msg.Data, &answer)
	})
	switch {
	case err != nil:
		return page{}, err
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return page{}, jetstream.ErrStreamNotFound
	case answer.Error != nil:
		return page{}, answer.Error
	}
	p.keys, p.total = slices.Sorted(maps.Keys(answer.State.Subjects)), answer.Total
	for i, subject := range p.keys {
		p.keys[i] = strings.TrimPrefix(subject, prefix)
	}
	return p, nil
}

// walk calls take with the keys of a bucket, a page after the other. It misses no key that is there
// all the time, although others come and go meanwhile: each page begins at or before the
// last key of the one before.
func (w walker) walk(ask func(offset int) (page, error), take func(keys []string) error) error {
	last := ""
	for offset := 0; ; {
		p, err := ask(offset)
		if err != nil {
			return err
		}
		if offset > 0 && (len(p.keys) == 0 || p.keys[0] > last) {
			offset = max(offset-w.back, 0)
			continue
		}
		known, found := slices.BinarySearch(p.keys, last)
		if found {
			known++
		}
		end := offset + len(p.keys)
		if len(p.keys) > 0 {
			last = max(last, p.keys[len(p.keys)-1])
		}
		if err := take(p.keys[known:]); err != nil {
			return err
		}
		if end >= p.total {
			return nil
		}
		offset = max(end-w.overlap, offset+1)
	}
}
