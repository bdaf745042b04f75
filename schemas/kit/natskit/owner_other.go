//go:build !unix

package natskit

import "io/fs"

// ownedByUs returns true: on these systems each user has an own temporary folder.
func ownedByUs(fs.FileInfo) bool { return true }
