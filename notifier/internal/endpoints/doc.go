// Package endpoints makes the endpoints of a notifier from its configuration: the file of
// --notify, or the flags that are its short form. It reports every fault of a file at once,
// with its line.
//
// It does not know how messages are delivered. Its errors hold no secret.
package endpoints
