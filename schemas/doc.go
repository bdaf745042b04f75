// Package schemas is the contract between Unloop's services: the subjects of their
// messages, the streams and buckets that they share, and the encoding of names as subject
// tokens and keys. The wire messages are in checkpb and semanticpb, the hashes of what is
// compared in fingerprint, events in event, recordings in record, policy bundles in
// policy, and the SDK for Go in client.
//
// It does not know how a service works, and imports no other module of this repository.
package schemas
