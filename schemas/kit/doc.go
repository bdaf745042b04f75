// Package kit is the parent of the plumbing that Unloop's services share, each part
// a package of its own:
//
//   - access guards ports: keys, how often an address may send a wrong one, which web
//     pages may use a port, and the proof that a process holds a key.
//   - freeport reserves loopback addresses for servers that start later.
//   - ledger keeps records in a bucket that many processes write at once.
//   - metric makes the metrics of a service.
//   - natskit connects to NATS: connections that survive outages, requests and
//     answers over NATS or in the process, streams and buckets, the embedded server.
//   - natstest gives tests a real NATS server.
//   - pause waits.
//   - servertime is the clock of the NATS server, which all processes share.
//   - spare runs functions in goroutines that are used again.
//   - service is the life of a process: flags, log, readiness, admin port, signals.
//
// None of it knows how loops are found. The contract itself is in package schemas, without
// these dependencies.
package kit
