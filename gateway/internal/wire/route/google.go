package route

import (
	"net/url"
	"regexp"
	"strings"
)

// vertexHost is the host of Vertex AI's global endpoint. Each region has its own,
// and each multi-region too.
const vertexHost = "aiplatform.googleapis.com"

// googleMethods are the methods of Google's models, as they stand behind a colon at
// the end of a path. OpenAI's fine-tuned models have colons in their names too.
var googleMethods = map[string]bool{
	"generateContent": true, "streamGenerateContent": true, "countTokens": true, "computeTokens": true,
	"embedContent": true, "batchEmbedContents": true, "asyncBatchEmbedContent": true, "batchGenerateContent": true,
	"generateAnswer": true, "predict": true, "predictLongRunning": true, "fetchPredictOperation": true,
	"rawPredict": true, "streamRawPredict": true,
}

// isGoogleMethod reports whether a path ends in one of googleMethods.
func isGoogleMethod(path string) bool {
	path = unescaped(path)
	return googleMethods[path[strings.LastIndexByte(path, ':')+1:]]
}

// isVertex reports whether a path, without its version, is one of Vertex AI: with a project, or
// without one if an API key stands for it.
func isVertex(path string) bool {
	return strings.HasPrefix(path, "projects/") || strings.HasPrefix(path, "publishers/") ||
		strings.HasPrefix(path, "reasoningEngines/") || strings.HasPrefix(path, "cachedContents/projects/")
}

// isVertexMessages reports whether a path of Vertex AI takes a prompt in Anthropic's format.
// The counting of tokens is a model of its own there.
func isVertexMessages(path string) bool {
	_, call, found := strings.Cut(path, "/publishers/anthropic/models/")
	model, method, _ := strings.Cut(call, ":")
	return found && model != "count-tokens" && (method == "rawPredict" || method == "streamRawPredict")
}

// location finds the location in a path of Vertex AI's. Only letters, digits and
// hyphens can become part of a host.
var location = regexp.MustCompile(`/projects/[^/]+/locations/([a-z]+(?:-[a-z]+\d+)?)(?:/|$)`)

// regional returns Vertex AI's public address for the location in a path. An address that
// the operator chose stays as it is.
func regional(base *url.URL, path string) *url.URL {
	found := location.FindStringSubmatch(path)
	if base.Host != vertexHost || found == nil {
		return base
	}
	u := *base
	switch where := found[1]; where {
	case "global":
	case "us", "eu":
		u.Host = "aiplatform." + where + ".rep.googleapis.com"
	default:
		u.Host = where + "-" + vertexHost
	}
	return &u
}
