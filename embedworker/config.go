package embedworker

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/embedworker/pull"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Embedding selects the embedder.
type Embedding struct {
	Embedder    string `default:"auto" enum:"auto,onnx,lexical" help:"Embedder: onnx, lexical, or auto (the first of these that works)."`
	Model       string `placeholder:"DIR" env:"UNLOOP_MODEL,LOOP_EMBEDDING_MODEL_PATH" help:"Folder with model.onnx and tokenizer.json, or an .onnx file beside its tokenizer. Default: what unloop model pull installed."`
	ONNXRuntime string `name:"onnx-runtime" placeholder:"FILE" help:"Shared library of ONNX Runtime, 1.27 or later. Default: what unloop model pull installed."`
}

// Config is an embedding worker's configuration.
type Config struct {
	Embedding
	ModelTokens  int `default:"256" help:"Longest text for the model, in tokens; of a longer one it reads the end."`
	ModelThreads int `default:"0" help:"Threads for each inference; 0 means one for each processor."`
	EmbedQueue   int `default:"256" help:"Maximum number of texts that wait for the model; further requests fail open."`
	EmbedCache   int `default:"10000" help:"How many vectors a worker with a model caches."`

	VectorStore string `default:"kv" enum:"kv,redis" help:"Store for histories: kv (JetStream) or redis."`
	Redis       string `default:"redis://127.0.0.1:6379" env:"UNLOOP_REDIS,REDIS_URL" placeholder:"URL" help:"URL of Redis 8 (vector sets), for --vector-store redis."`

	UDS               string  `name:"uds" env:"UNLOOP_UDS,UDS_PATH,LOOP_EMBEDDING_SIDECAR_UDS" placeholder:"PATH" help:"Serve Agent Sentinel's gRPC on this Unix socket; default means embedding-sidecar.sock in the system's temporary folder."`
	SentinelThreshold float64 `default:"0.95" env:"UNLOOP_SENTINEL_THRESHOLD,LOOP_SIMILARITY_THRESHOLD" help:"Similarity threshold for prompts on that socket."`
	SentinelHistory   int     `default:"5" env:"UNLOOP_SENTINEL_HISTORY,LOOP_HISTORY_SIZE" help:"How many prompts of each tenant on that socket are remembered."`
	SentinelTTL       string  `default:"3600" env:"UNLOOP_SENTINEL_TTL,LOOP_EMBEDDING_TTL" help:"How long each of these prompts is remembered: seconds, or a duration such as 1h."`
	SentinelStoreText bool    `help:"Store the prompts of that socket and return the similar one."`
}

// DefaultConfig returns the configuration without any flag.
func DefaultConfig() Config { return service.Defaults[Config]() }

// defaultSocket is the name of the socket to which Agent Sentinel's proxy connects.
const defaultSocket = "embedding-sidecar.sock"

// socket returns the path of Agent Sentinel's socket, "" for none. UDS may be a gRPC target, as
// in that project's configuration.
func (c Config) socket() string {
	if c.UDS == "default" {
		return filepath.Join(os.TempDir(), defaultSocket)
	}
	path, isTarget := strings.CutPrefix(c.UDS, "unix:")
	if isTarget && strings.HasPrefix(path, "//") {
		path = path[len("//"):]
	}
	return path
}

// sentinelTTL parses SentinelTTL, which is in seconds in Agent Sentinel's configuration.
func (c Config) sentinelTTL() (time.Duration, error) {
	ttl, err := time.ParseDuration(c.SentinelTTL)
	if err != nil {
		ttl, err = time.ParseDuration(c.SentinelTTL + "s")
	}
	if err != nil || ttl < time.Second {
		return 0, fmt.Errorf("--sentinel-ttl (LOOP_EMBEDDING_TTL) %q must be a time of at least a second", c.SentinelTTL)
	}
	return ttl, nil
}

// embedConfig returns the embedder's configuration, with the files that unloop model pull
// installed.
func (c Config) embedConfig() embed.Config {
	limits := embed.DefaultLimits()
	limits.Tokens, limits.Threads, limits.Queue = c.ModelTokens, c.ModelThreads, c.EmbedQueue
	out := embed.Config{Kind: c.Embedder, Model: c.Model, Runtime: c.ONNXRuntime, Limits: limits}
	if dir, err := pull.DefaultDir(); err == nil {
		found := pull.Find(dir, runtime.GOOS)
		out.Model, out.Runtime = cmp.Or(out.Model, found.Model), cmp.Or(out.Runtime, found.Runtime)
	}
	return out
}

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	_, ttlErr := c.sentinelTTL()
	faults := service.Faults{c.embedConfig().Validate(), ttlErr}
	faults.Check(c.VectorStore == "kv" || c.VectorStore == "redis", "--vector-store %q is neither kv nor redis", c.VectorStore)
	faults.Check(c.SentinelThreshold >= 0 && c.SentinelThreshold <= 1, "--sentinel-threshold (LOOP_SIMILARITY_THRESHOLD) %g is not between 0 and 1", c.SentinelThreshold)
	faults.Check(c.SentinelHistory >= 1 && c.SentinelHistory <= vectors.MaxKeep,
		"--sentinel-history (LOOP_HISTORY_SIZE) %d is not between 1 and %d", c.SentinelHistory, vectors.MaxKeep)
	faults.Check(c.EmbedCache >= 1, "--embed-cache is %d, must be at least 1", c.EmbedCache)
	return faults.Err()
}
