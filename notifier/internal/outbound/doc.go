// Package outbound makes the requests and connections of sinks. It refuses private,
// loopback, link-local and metadata addresses unless their network is allowed, follows no
// redirects, uses no proxy, and reads only the beginning of an answer.
//
// It does not know what is sent. Its errors contain no URL, header or body.
package outbound
