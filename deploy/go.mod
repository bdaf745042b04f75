module github.com/unloop/unloop/deploy

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/unloop/unloop/detector v0.0.0
	github.com/unloop/unloop/gateway v0.0.0
	github.com/unloop/unloop/notifier v0.0.0
	github.com/unloop/unloop/schemas v0.0.0
	github.com/unloop/unloop/schemas/kit v0.0.0
)

replace (
	github.com/unloop/unloop/detector => ../detector
	github.com/unloop/unloop/gateway => ../gateway
	github.com/unloop/unloop/notifier => ../notifier
	github.com/unloop/unloop/schemas => ../schemas
	github.com/unloop/unloop/schemas/kit => ../schemas/kit
)
