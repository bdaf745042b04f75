// Package pull pulls the events of the stream for one endpoint, one after the other and
// in their order, through the durable consumer that all notifiers share for it.
//
// It survives lost connections, and streams and consumers that vanish. It knows neither
// the contents of messages nor how they are acknowledged.
package pull
