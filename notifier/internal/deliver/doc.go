// Package deliver takes events to endpoints in a row of small stages: route, group,
// throttle, send and record. Between group and throttle, an event waits in a record of its
// endpoint's outbox (package outbox), which notifiers share in JetStream KV.
//
// Each endpoint has its own records, timers and workers, so that none waits for another.
// The package knows neither how events are pulled from their stream nor what a sink does
// with a message. It never logs the content of events.
package deliver
