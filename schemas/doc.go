// Package schemas is the contract between Unloop's services: the subjects
// they talk on, the streams and buckets they share, and how names become
// subject tokens and keys. The wire messages are in checkpb, events in event,
// policy bundles in policy.
//
// It knows nothing of how a service works, and imports no other module of
// this repository.
package schemas
