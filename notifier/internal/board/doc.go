// Package board is the read model behind the dashboard: it folds records, events and status
// replies into the loops and lists that people look at. Its memory is bounded whatever comes,
// and its types are safe for concurrent use.
//
// It does not know where the values come from, or how they are shown.
package board
