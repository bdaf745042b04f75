// Package outbox is the pure core of delivery: the record of the messages that one
// endpoint is owed about a group of loops, and the steps that change it.
//
// A record has at most one message that is owed. While attempts at it go on, what happens
// to its loops is added to the group and follows in the next message, so that nothing
// about a loop overtakes what was said about it before. One notifier at a time holds the
// claim of a record and makes an attempt.
//
// The package knows neither how records are stored nor how messages are sent, and it reads
// no clock.
package outbox
