// Package places contains only tests. They count the places where code and settings name one
// thing, such as a detection rule, and compare them with docs/architecture.md.
package places
