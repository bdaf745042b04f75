// Package places has no code. Its tests count the places in which production code and
// settings name one thing, such as a rule of findings, and compare them with
// docs/architecture.md.
package places
