module github.com/unloop/unloop/embedworker

go 1.26.0

require (
	golang.org/x/text v0.43.0
	pgregory.net/rapid v1.3.0
)

replace github.com/unloop/unloop/schemas => ../schemas

replace github.com/unloop/unloop/schemas/kit => ../schemas/kit
