// Package outbox is the pure core of delivery: the record of what one endpoint is owed
// about one group of loops, and the steps by which it changes.
//
// A record has at most one message that is owed. While attempts at it go on, what happens
// to its loops is added to the group and follows in the next message, so that nothing
// about a loop overtakes what was said about it before. One notifier at a time holds the
// claim of a record and makes an attempt.
//
// The package knows neither how records are stored nor how messages are sent, and it reads
// no clock.
package outbox
