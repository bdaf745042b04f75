package doctor

import (
	"context"
	"fmt"
)

// Less free space, in bytes, is worth a warning or a fault.
const (
	lowSpace = 1 << 30
	noSpace  = 128 << 20
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
	case free < noSpace:
		return []Finding{{"disk", Fault, detail, mend}}
	case free < lowSpace:
		return []Finding{{"disk", Warning, detail, mend}}
	}
	return []Finding{{"disk", OK, detail, ""}}
}
