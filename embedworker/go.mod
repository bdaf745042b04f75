module github.com/unloop/unloop/embedworker

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/maypok86/otter/v2 v2.4.0
	github.com/yalue/onnxruntime_go v1.27.0
	golang.org/x/text v0.43.0
	google.golang.org/protobuf v1.36.12
	pgregory.net/rapid v1.3.0
)

replace github.com/unloop/unloop/schemas => ../schemas

replace github.com/unloop/unloop/schemas/kit => ../schemas/kit
