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

// pageWithin is the timeout for a page, after which it is asked for again. A server with ten
// million keys takes some seconds.
const pageWithin = 30 * time.Second

// walker has the parameters of a walk: overlap is the number of keys that a page shares with
// the one before, back the number by which the offset goes back if so many keys have expired
// that they share none.
type walker struct{ overlap, back int }

// usualWalker is the walker for real servers.
var usualWalker = walker{overlap: 1_000, back: 50_000}

// page is a part of a bucket's keys in their order.
type page struct {
	keys []string
	// total is the number of all keys.
	total int
}

// askPage returns up to 100,000 keys of a bucket from an offset on, as its stream's leader
// has them.
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

// walk calls take with the keys of a bucket, page by page. Although keys come and go
// meanwhile, it misses none that is there all the time: each page begins at or before the
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
