// Package storepb encodes stored records: as messages, generated from store.proto, for the
// state of services, and as JSON for documents, which people and other programs read and write,
// too. It does not know what the records are for.
package storepb

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// Append appends a record to b, or nothing if it can't be encoded because a text is not UTF-8.
func Append(b []byte, record proto.Message) []byte {
	out, err := proto.MarshalOptions{}.MarshalAppend(b, record)
	if err != nil {
		return b
	}
	return out
}

const (
	// compressFrom is the size in bytes from which a document is compressed: NATS takes
	// messages of up to 1 MiB.
	compressFrom = 64 << 10
	// maxDocument bounds a document that is read, in bytes.
	maxDocument = 64 << 20
	// gzipMagic begins what is compressed.
	gzipMagic = "\x1f\x8b"
)

// AppendDocument appends a document to b as JSON, with gzip if it is large. A document that
// can't be encoded, because of a time such as the year 10000, becomes {}.
func AppendDocument(b []byte, document any) []byte {
	body, err := json.Marshal(document)
	switch {
	case err != nil:
		return append(b, "{}"...)
	case len(body) < compressFrom:
		return append(b, body...)
	}
	out := bytes.NewBuffer(b)
	zip := gzip.NewWriter(out)
	_, _ = zip.Write(body) // a buffer takes everything
	_ = zip.Close()
	return out.Bytes()
}

// ReadDocument reads what AppendDocument wrote.
func ReadDocument(stored []byte, into any) error {
	if bytes.HasPrefix(stored, []byte(gzipMagic)) {
		zip, err := gzip.NewReader(bytes.NewReader(stored))
		if err != nil {
			return err
		}
		if stored, err = io.ReadAll(io.LimitReader(zip, maxDocument)); err != nil {
			return err
		}
	}
	return json.Unmarshal(stored, into)
}

// Read reads a stored value: a record by its own Parse, anything else as a document.
func Read(stored []byte, into any) error {
	if record, ok := into.(interface{ Parse(stored []byte) error }); ok {
		return record.Parse(stored)
	}
	return ReadDocument(stored, into)
}

// Of returns an empty message of the kind that a bucket has under a key; nil if that is none.
func Of(bucket, key string) proto.Message {
	kind, _, _ := strings.Cut(key, ".")
	switch bucket {
	case schemas.BucketCounters:
		return new(Counter)
	case schemas.BucketBlocks:
		return new(Blocks)
	case schemas.BucketLimits, schemas.BucketBudgets:
		return new(Limit)
	case schemas.BucketIncidents:
		return new(Loop)
	case schemas.BucketVectors:
		return new(semanticpb.VectorHistory)
	case schemas.BucketSessions:
		switch kind {
		case "streak":
			return new(Streak)
		case "calls":
			return new(checkpb.AnswerCalls)
		case "asker":
			return new(checkpb.AnswerAsker)
		}
	}
	return nil
}
