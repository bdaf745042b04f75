// Package board is the read model behind the dashboard: it folds records of buckets, events
// and the replies of parts into what people look at, within bounds of its own whatever
// comes. It takes values and times; its types may be used by many goroutines at once.
//
// It does not know where the values come from, and how they are shown.
package board
