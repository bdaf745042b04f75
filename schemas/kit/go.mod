module github.com/unloop/unloop/schemas/kit

go 1.26.0

require github.com/unloop/unloop/schemas v0.0.0

replace github.com/unloop/unloop/schemas => ../
