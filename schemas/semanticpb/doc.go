// Package semanticpb holds the generated messages of semantic checks; see
// proto/unloop/semantic.
package semanticpb
