// Package render turns messages into text: a title, lines about each loop, and bodies by
// templates of the configuration. Everything it returns is bounded.
//
// It does not know the formats of services.
package render
