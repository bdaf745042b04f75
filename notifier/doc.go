// Package notifier takes the events of the LOOP_EVENTS stream to the outside:
// today to one webhook. Any number of notifiers share the work; an event is
// delivered by one of them, at least once, and always under the same id.
//
// It does not know how loops are found, and leaves the stream as it is, for
// any other subscriber.
package notifier
