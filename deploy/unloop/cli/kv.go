package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/storepb"
)

type kvCmd struct {
	client
	Bucket string `arg:"" help:"Bucket, such as LOOP_COUNTERS."`
	Keys   string `arg:"" optional:"" default:">" help:"Keys to print; * and > are wildcards."`
}

// storedRecord is a line of the output.
type storedRecord struct {
	Key    string `json:"key"`
	Record any    `json:"record"`
}

// Run prints the records of a bucket and its partitions, each as a line of JSON. Records that
// cannot be read are null, and the error names them.
func (c *kvCmd) Run(ctx context.Context, std streams) error {
	trust, err := c.trust()
	if err != nil {
		return err
	}
	return c.with(ctx, func(js jetstream.JetStream) error {
		records, err := c.records(ctx, js)
		if err != nil {
			return explain(fmt.Errorf("read bucket %s: %w", c.Bucket, err))
		}
		var faults []error
		all := make([]storedRecord, len(records))
		for i, r := range records {
			all[i].Key = r.Key
			if all[i].Record, err = readable(trust, partition.Base(c.Bucket), r.Key, r.Value); err != nil {
				all[i].Record = nil
				faults = append(faults, fmt.Errorf("read record %s of %s: %w", r.Key, c.Bucket, err))
			}
		}
		return errors.Join(append(faults, jsonLines(std, all))...)
	})
}

// records returns the records of all partitions of the bucket.
func (c *kvCmd) records(ctx context.Context, js jetstream.JetStream) (all []natskit.Record, err error) {
	names := []string{c.Bucket}
	if partition.Spread(c.Bucket) {
		scheme, _, err := natskit.ReadPartitions(ctx, js)
		if err != nil {
			return nil, err
		}
		names = partition.Names(c.Bucket, scheme.Count)
	}
	for _, name := range names {
		records, err := natskit.Records(ctx, js, name, c.Keys)
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	return all, nil
}

// readable decodes a stored value for printing as JSON.
func readable(trust seal.Trust, bucket, key string, value []byte) (any, error) {
	switch m := storepb.Of(bucket, key); {
	case len(value) == 0, key == natskit.ProbeKey: // probes test whether writes are stored
		return nil, nil
	case bucket == schemas.BucketIncidents:
		var loop openloop.Record
		err := loop.Parse(value)
		return loop, err
	case m != nil:
		if err := proto.Unmarshal(value, m); err != nil {
			return nil, err
		}
		if limit, ok := m.(*storepb.Limit); ok {
			limit.Fill = nil
		}
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
		return json.RawMessage(text), err
	case bucket == schemas.BucketSessions && strings.HasPrefix(key, "tool."):
		return detector.ReadSession(value)
	case bucket == schemas.BucketPolicies && key == schemas.KeyCallerHash:
		return "secret", nil
	case bucket == schemas.BucketPolicies || bucket == schemas.BucketOverrides:
		record, err := trust.Open(bucket, key, value)
		if err != nil {
			return nil, err
		}
		value = record.Content
	}
	var document any
	if storepb.ReadDocument(value, &document) == nil {
		return document, nil
	}
	if utf8.Valid(value) {
		return string(value), nil
	}
	return value, nil
}
