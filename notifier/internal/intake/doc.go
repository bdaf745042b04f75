// Package intake pulls messages of the event stream through the durable
// consumer that all notifiers share, each as soon as there is a free place to
// handle it.
//
// It survives lost connections, and streams and consumers that vanish. It
// knows neither the contents of messages nor how they are acknowledged.
package intake
