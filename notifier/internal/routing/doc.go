// Package routing decides which messages an endpoint gets and when: by routes, groups,
// silences and throttles. It takes state, an event, the configuration and a time, and
// returns the next state and what to send.
//
// Add adds an event to a group and sets Due. From that time on, Collect returns the batch to
// send. After the batch was sent or given up, Sent updates the group. A group without loops
// can be deleted.
//
// It does not know how state is stored, who calls it when a group is due, or how a message
// is sent.
package routing
