// Package checkpb is the decision path's wire messages, generated from
// proto/unloop/check/v1/check.proto, which documents them. It knows nothing
// but their encoding.
package checkpb
