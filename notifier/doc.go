// Package notifier delivers the events of the LOOP_EVENTS stream to webhooks. Any
// number of notifiers share the work; each event is delivered by one of them, at
// least once, and always under the same id.
//
// It does not know how loops are found, and does not change the stream, which has
// other subscribers.
package notifier
