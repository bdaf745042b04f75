// Package embeddingpb holds the generated messages of Agent Sentinel's
// embedding interface; see ../proto.
package embeddingpb
