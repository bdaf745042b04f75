// Package endpoints makes the endpoints of a notifier from its configuration: the file of
// --notify, and the flags that are its short form. It finds every fault of a file at once,
// with its line.
//
// It does not know how messages are delivered. Its errors hold no secret.
package endpoints
