// Package pull pulls events from their stream for one endpoint, one by one and in order,
// through a durable consumer that all notifiers share.
//
// It survives lost connections, streams and consumers. It knows neither the contents of
// messages nor how they are acknowledged.
package pull
