// Package kit is the parent of the plumbing that Unloop's services share, each
// part a package of its own: natskit (connections, streams, the embedded
// server), ledger (records in a bucket that many processes write), natstest (a
// real server for tests) and service (lifecycle, readiness, the admin port,
// flags, logs).
//
// None of it knows what a loop is; the contract itself is in package schemas
// and free of these dependencies.
package kit
