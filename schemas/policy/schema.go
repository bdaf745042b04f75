package policy

import _ "embed"

//go:generate go test . -run TestPublishedSchemaIsUpToDate -update

// Schema is the JSON Schema (2020-12) of a bundle, as it is published. It is
// generated from the Go types and their tags.
//
//go:embed bundle.schema.json
var Schema []byte
