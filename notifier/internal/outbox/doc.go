// Package outbox is the pure core of delivery: the record of the messages that are due to an
// endpoint about a group of loops, and the steps that change it.
//
// A record has at most one pending message. While attempts at it go on, new events of its
// loops are added to the group and follow in the next message, so that messages about a loop
// stay in order. One notifier at a time has the claim on a record and makes an attempt.
//
// The package knows neither how records are stored nor how messages are sent, and it reads
// no clock.
package outbox
