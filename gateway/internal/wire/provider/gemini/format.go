package gemini

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// Format is that of Gemini's prompts, which Vertex AI has, too.
var Format = &provider.Format{
	Provider: Generate{},
	Reads: func(path string) bool {
		return strings.HasSuffix(path, ":generateContent") || strings.HasSuffix(path, ":streamGenerateContent")
	},
	Upstreams: []*provider.Upstream{Upstream, Vertex},
	Operation: "generate_content",
	PutKey:    provider.PutIn(keyHeader),
	Usage: provider.Usage{
		Objects: []string{"usageMetadata", "usage_metadata"},
		Input:   []string{"promptTokenCount", "toolUsePromptTokenCount"}, Cached: []string{"cachedContentTokenCount"}, Output: []string{"candidatesTokenCount", "thoughtsTokenCount"},
		MaxOutput: both("generationConfig.maxOutputTokens"), Answers: both("generationConfig.candidateCount"),
		Prompt: append([]string{"contents", "tools"}, both("systemInstruction")...),
	},
	Failing: true,
}

const keyHeader = "X-Goog-Api-Key"

// versions are those of Google's APIs. Uploads have a path of their own.
var versions = []string{"v1beta", "v1", "v1beta1", "v1alpha", "upload"}

// Upstream is the Gemini API.
var Upstream = &provider.Upstream{
	Name: "gemini", Title: "Gemini", Address: "https://generativelanguage.googleapis.com", Hosts: []string{".googleapis.com"}, System: "gcp.gemini",
	Versions: versions, Claims: claims, Owns: owns, Models: "/v1beta/models", Other: other,
	Lacks:     func(path string) bool { return strings.HasPrefix(path, "models/") && isMethod(path) },
	Variables: []provider.Variable{{Name: "GOOGLE_GEMINI_BASE_URL"}},
}

var other = &provider.Format{Provider: Other{}, PutKey: provider.PutIn(keyHeader)}

// Vertex is Vertex AI.
var Vertex = &provider.Upstream{
	Name: "vertex", Title: "Vertex AI", Address: "https://" + vertexHost, Hosts: []string{".googleapis.com"}, System: "gcp.vertex_ai",
	Versions: versions, Claims: func(_ *http.Request, path string) bool { return isVertex(path) },
	Host: regional, PutKey: putVertexKey, Other: other, Models: "/v1/publishers/google/models",
}

// vertexHost is the host of Vertex AI's global endpoint. Each region has its own,
// and each multi-region too.
const vertexHost = "aiplatform.googleapis.com"

// methods are the methods of Google's models, as they stand behind a colon at
// the end of a path. OpenAI's fine-tuned models have colons in their names too.
var methods = map[string]bool{
	"generateContent": true, "streamGenerateContent": true, "countTokens": true, "computeTokens": true,
	"embedContent": true, "batchEmbedContents": true, "asyncBatchEmbedContent": true, "batchGenerateContent": true,
	"generateAnswer": true, "predict": true, "predictLongRunning": true, "fetchPredictOperation": true,
	"rawPredict": true, "streamRawPredict": true,
}

// isMethod reports whether a path ends in one of methods.
func isMethod(path string) bool { return methods[path[strings.LastIndexByte(path, ':')+1:]] }

func claims(_ *http.Request, path string) bool { return isMethod(path) }

// isVertex reports whether a path, without its version, is one of Vertex AI: with a project, or
// without one if an API key stands for it.
func isVertex(path string) bool {
	return strings.HasPrefix(path, "projects/") || strings.HasPrefix(path, "publishers/") ||
		strings.HasPrefix(path, "reasoningEngines/") || strings.HasPrefix(path, "cachedContents/projects/")
}

// location finds the location in a path of Vertex AI's. Only letters, digits and
// hyphens can become part of a host.
var location = regexp.MustCompile(`/projects/[^/]+/locations/([a-z]+(?:-[a-z]+\d+)?)(?:/|$)`)

// regional returns Vertex AI's host for the location in a path.
func regional(path string) string {
	found := location.FindStringSubmatch(path)
	if found == nil {
		return vertexHost
	}
	switch where := found[1]; where {
	case "global":
		return vertexHost
	case "us", "eu":
		return "aiplatform." + where + ".rep.googleapis.com"
	default:
		return where + "-" + vertexHost
	}
}

func owns(header, key string) bool {
	return header == keyHeader || isAPIKey(key) || strings.HasPrefix(key, "ya29.")
}

// isAPIKey reports whether a key begins as Google's API keys do. Access tokens begin in
// another way.
func isAPIKey(key string) bool {
	return strings.HasPrefix(key, "AIza") || strings.HasPrefix(key, "AQ.")
}

// putVertexKey puts in an API key, or an access token, which Vertex AI mostly takes.
func putVertexKey(out *http.Request, sent http.Header, key string) {
	if isAPIKey(key) {
		out.Header.Set(keyHeader, key)
		return
	}
	provider.PutBearer(out, sent, key)
}

// both returns the spellings of a name, and of each part of one such as "a.b".
func both(name string) (all []string) {
	first, rest, nested := strings.Cut(name, ".")
	for _, s := range spell(first) {
		for _, spelt := range []string{s.camel, s.snake} {
			if !nested {
				all = append(all, spelt)
				continue
			}
			for _, inner := range both(rest) {
				all = append(all, spelt+"."+inner)
			}
		}
	}
	return all
}
