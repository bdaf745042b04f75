module github.com/unloop/unloop/deploy

go 1.26.0

require github.com/unloop/unloop/schemas v0.0.0
require github.com/unloop/unloop/schemas/kit v0.0.0
require github.com/unloop/unloop/gateway v0.0.0
require github.com/unloop/unloop/detector v0.0.0
require github.com/unloop/unloop/notifier v0.0.0

replace github.com/unloop/unloop/schemas => ../schemas
replace github.com/unloop/unloop/schemas/kit => ../schemas/kit
replace github.com/unloop/unloop/gateway => ../gateway
replace github.com/unloop/unloop/detector => ../detector
replace github.com/unloop/unloop/notifier => ../notifier
