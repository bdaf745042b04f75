// Package checkpb has the messages between gateways and detectors, generated from
// proto/unloop/check/v1/check.proto, which documents them.
package checkpb
