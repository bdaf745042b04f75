package main

import (
	"encoding/json"
	"path"
)

// image is a container image of a release: a target of deploy/images/Dockerfile.
type image struct{ name, target string }

// images are the images that the Helm chart and compose.yaml use.
var images = []image{
	{"unloop", "unloop"}, {"unloop-gateway", "gateway"}, {"unloop-detector", "detector"}, {"unloop-embedworker", "embedworker"}, {"unloop-notifier", "notifier"},
}

// bakeTarget is a target of a bake file (https://docs.docker.com/build/bake/reference/).
type bakeTarget struct {
	Context    string            `json:"context"`
	Dockerfile string            `json:"dockerfile"`
	Target     string            `json:"target"`
	Platforms  []string          `json:"platforms"`
	Args       map[string]string `json:"args"`
	Tags       []string          `json:"tags"`
}

// writeBake writes a bake file with the names of the images: in a checkout of the revision,
// "docker buildx bake -f docker-bake.json --push" builds and publishes them.
func (r *release) writeBake() error {
	targets, all := map[string]bakeTarget{}, []string{}
	for _, i := range images {
		all = append(all, i.name)
		targets[i.name] = bakeTarget{
			Context: ".", Dockerfile: "deploy/images/Dockerfile", Target: i.target, Platforms: []string{"linux/amd64", "linux/arm64"},
			Args: map[string]string{"VERSION": r.version, "REVISION": r.revision}, Tags: []string{path.Join(r.registry, i.name) + ":" + r.version},
		}
	}
	text, err := json.MarshalIndent(map[string]any{"group": map[string]any{"default": map[string]any{"targets": all}}, "target": targets}, "", "  ")
	if err != nil {
		return err
	}
	return r.writeFile("docker-bake.json", append(text, '\n'))
}
