// Package outbound makes the requests and connections of sinks. It refuses private,
// loopback, link-local and metadata addresses unless their network is allowed, follows no
// redirects, uses no proxy, and reads a bounded part of answers.
//
// It does not know what is sent. Its errors hold no URL, no header and no body.
package outbound
