package doctor

import (
	"context"
	"fmt"
)

// Bounds of free space, in bytes: less is worth a warning, or a fault.
const (
	little = 1 << 30
	least  = 128 << 20
)

func (e *examination) checkDisk(context.Context) []Finding {
	if e.DataDir == "" || e.inMemory {
		return nil
	}
	free, known := freeBytes(e.DataDir)
	if !known {
		return nil
	}
	detail := fmt.Sprintf("%d MiB free at %s", free>>20, e.DataDir)
	const mend = "make room there, or move the state with --data-dir"
	switch {
	case free < least:
		return []Finding{{"disk", Fault, detail, mend}}
	case free < little:
		return []Finding{{"disk", Warning, detail, mend}}
	}
	return []Finding{{"disk", OK, detail, ""}}
}
