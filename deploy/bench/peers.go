package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/usage"
	"github.com/unloop/unloop/schemas/kit/freeport"
)

// peer is a proxy that people put in front of models.
type peer struct {
	name string
	// tool is the name by which tool.sh installs it.
	tool string
	// header returns what its clients have to send; nil for nothing.
	header func(upstream string) map[string]string
	// command returns the program that runs the installed tool. It may write files to dir.
	command func(tool, dir, listen, upstream string) (program, error)
}

var peers = []peer{
	{name: "nginx", tool: "nginx", command: runNginx},
	{name: "Caddy", tool: "caddy", command: runCaddy},
	{name: "Portkey's gateway", tool: "node-modules", command: runPortkey, header: func(upstream string) map[string]string {
		return map[string]string{"x-portkey-provider": "openai", "x-portkey-custom-host": upstream + "/v1"}
	}},
}

// nginxConfig runs one process, which is the one that is measured, and keeps bodies in memory
// like the other proxies.
const nginxConfig = `daemon off; master_process off; pid DIR/pid; error_log stderr;
events { worker_connections 1024; }
http {
	access_log off; client_max_body_size 64m; client_body_buffer_size 2m; client_body_temp_path DIR/b; proxy_temp_path DIR/p;
	fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
	upstream model { server UPSTREAM; keepalive 1024; }
	server { listen LISTEN; location / { proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; } }
}`

func runNginx(tool, dir, listen, upstream string) (program, error) {
	config := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("DIR", dir, "UPSTREAM", strings.TrimPrefix(upstream, "http://"), "LISTEN", listen).Replace(nginxConfig)
	return program{file: tool, args: []string{"-p", dir, "-e", "stderr", "-c", config}}, os.WriteFile(config, []byte(text), 0o600)
}

const caddyConfig = `{"admin": {"disabled": true}, "logging": {"logs": {"default": {"level": "ERROR"}}}, "apps": {"http": {"servers": {"model": {
	"listen": ["LISTEN"], "automatic_https": {"disable": true},
	"routes": [{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": "UPSTREAM"}], "transport": {"protocol": "http", "keep_alive": {"max_idle_conns_per_host": 1024}}}]}]}}}}}`

func runCaddy(tool, dir, listen, upstream string) (program, error) {
	config := filepath.Join(dir, "caddy.json")
	text := strings.NewReplacer("UPSTREAM", strings.TrimPrefix(upstream, "http://"), "LISTEN", listen).Replace(caddyConfig)
	return program{file: tool, args: []string{"run", "--config", config}, env: []string{"XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}}, os.WriteFile(config, []byte(text), 0o600)
}

func runPortkey(tool, _, listen, _ string) (program, error) {
	node, err := exec.LookPath("node")
	_, port, _ := strings.Cut(listen, ":")
	return program{
		file: node, args: []string{filepath.Join(tool, "@portkey-ai", "gateway", "build", "start-server.js"), "--headless", "--port=" + port},
		env: []string{"TRUSTED_CUSTOM_HOSTS=127.0.0.1"},
	}, err
}

// install returns the path of a tool, after installing it if it is missing.
func install(ctx context.Context, tool string) (string, error) {
	var problem strings.Builder
	cmd := exec.CommandContext(ctx, inRepository("deploy/tools/tool.sh"), tool)
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("install %s: %w: %s", tool, err, problem.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// startPeer starts a peer in front of an upstream; tool is its path.
func (b *bench) startPeer(ctx context.Context, p peer, tool, upstream string) (*instance, error) {
	listen, err := freeport.Addr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, p.tool+"-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for %s: %w", p.name, err)
	}
	run, err := p.command(tool, dir, listen, upstream)
	if err != nil {
		return nil, fmt.Errorf("set up %s: %w", p.name, err)
	}
	in := &instance{name: p.name, url: "http://" + listen}
	if p.header != nil {
		in.header = p.header(upstream)
	}
	return in, b.startProcess(ctx, in, p.tool, run, in.url, "")
}

// peerFigures are the figures that every program has.
var peerFigures = []measure.Figure{measure.P50, measure.P99, measure.Rate, processorFigure, unjudgedFigure}

// besidePeers compares Unloop with other proxies.
func (b *bench) besidePeers(ctx context.Context) error {
	sessions, err := b.replayed()
	if err != nil {
		return err
	}
	exact, err := b.exact()
	if err != nil {
		return err
	}
	kinds := []unloop{exact, {name: nameUnloop}}
	if b.model != "" {
		kinds = append(kinds, unloop{name: nameUnloop + ", ONNX", flags: []string{"--embedder", "onnx", "--model", b.model}})
	}
	upstream, all, err := b.lineUp(ctx, kinds...)
	if err != nil {
		return err
	}
	for _, p := range peers {
		tool, err := install(ctx, p.tool)
		if err != nil {
			fmt.Fprintf(b.out, "\n%s is left out: %v\n", p.name, err)
			continue
		}
		in, err := b.startPeer(ctx, p, tool, upstream.url)
		if err != nil {
			return err
		}
		all = append(all, in)
	}
	return b.compareSessions(ctx, sessions, b.plan.Calls, all, peerFigures)
}

// resident returns a row with the memory that instances have at the end.
func resident(all []*instance) []string {
	row := []string{"MB resident at the end"}
	for _, in := range all {
		var bytes int64
		for _, p := range in.processes {
			bytes += usage.Memory(p.pid)
		}
		row = append(row, fmt.Sprintf("%d", bytes>>20))
	}
	return row
}
