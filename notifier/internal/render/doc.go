// Package render turns messages into text: a title, facts about each loop, and bodies from
// configured templates. Everything it returns is bounded.
//
// It does not know the formats of services.
package render
