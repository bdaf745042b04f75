package natskit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// InMemory is the data directory of a server that stores nothing on disk.
const InMemory = "memory"

// ErrDataDirInUse means that another process uses the data directory.
var ErrDataDirInUse = errors.New("data directory is in use")

// serverStart bounds the start of the embedded server. Reading a large store takes some
// seconds.
const serverStart = 60 * time.Second

// EmbeddedConfig configures the embedded server.
type EmbeddedConfig struct {
	// Listen is the host:port for clients; port 0 takes any free port. If it is empty,
	// only this process can connect.
	Listen string
	// DataDir is where JetStream stores, or InMemory.
	DataDir string
	// MaxStore bounds what JetStream stores on disk, in bytes; 0 for three quarters of
	// the space that is free at the start.
	MaxStore int64
	// Announce is the folder, such as RuntimeDir, in which other processes of the user find
	// the server's token; "" for none.
	Announce string
}

// Embedded is a NATS server with JetStream inside this process.
type Embedded struct {
	log    *slog.Logger
	dir    string
	lock   *flock.Flock
	tmp    string
	memory bool
	// token authenticates clients.
	token        string
	announcement *announcement
	// suspect receives a value when a write of this process fails, or the server logs an
	// error.
	suspect chan struct{}

	mu      sync.Mutex
	options server.Options
	running *server.Server
	stopped bool
}

// StartEmbedded starts a server and waits until it accepts clients. It holds
// the data directory until Stop; a second holder gets ErrDataDirInUse.
func StartEmbedded(cfg EmbeddedConfig, log *slog.Logger) (*Embedded, error) {
	host, port, err := splitListen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	removeAbandoned(os.TempDir(), log)
	e := &Embedded{memory: cfg.DataDir == InMemory, log: log, suspect: make(chan struct{}, 1)}
	if e.dir, err = e.claim(cfg.DataDir); err != nil {
		return nil, err
	}
	if e.token, err = Secret(filepath.Join(e.dir, tokenFile)); err != nil {
		return nil, errors.Join(fmt.Errorf("make a token in --data-dir: %w", err), e.free())
	}
	e.options = server.Options{
		ServerName: "unloop", Host: host, Port: port,
		JetStream: true, StoreDir: e.dir, JetStreamMaxStore: cfg.MaxStore,
		NoSigs: true, DontListen: cfg.Listen == "", Authorization: e.token, MaxPayload: 1 << 20,
		// A client that is frozen is given up, so that its queue groups go on.
		PingInterval: 2 * time.Second, MaxPingsOut: 2,
	}
	if err := e.run(); err != nil {
		return nil, errors.Join(fmt.Errorf("start embedded NATS at --nats-listen %s: %w", cfg.Listen, err), e.free())
	}
	e.announce(cfg)
	return e, nil
}

// announce writes the token for commands of the same user. Without it they need --data-dir,
// or the token in --nats.
func (e *Embedded) announce(cfg EmbeddedConfig) {
	if cfg.Listen == "" || cfg.Announce == "" {
		return
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(e.server().ClientURL(), "nats://"))
	if err == nil {
		e.announcement, err = announce(cfg.Announce, port, e.token)
	}
	if err != nil {
		e.log.Warn("commands such as unloop loops will not find the NATS token; pass --nats nats://TOKEN@HOST:PORT", "error", err)
	}
}

// run starts a server, on the previous server's port if there was one. The caller holds the
// lock, or is the only user.
func (e *Embedded) run() error {
	options := e.options // the server changes its own
	srv, err := server.NewServer(&options)
	if err != nil {
		return err
	}
	srv.SetLoggerV2(natsLog{e.log.With("component", "nats"), e.suspect}, false, false, false)
	srv.Start()
	if !srv.ReadyForConnections(serverStart) {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("%w within %s", errNotReady, serverStart)
	}
	if addr, ok := srv.Addr().(*net.TCPAddr); ok { // it may not listen
		e.options.Port = addr.Port
	}
	e.running = srv
	return nil
}

var errNotReady = errors.New("not ready")

// restart stops the server and starts another one on the same store.
func (e *Embedded) restart() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return nil
	}
	e.running.Shutdown()
	e.running.WaitForShutdown()
	if err := e.run(); err != nil {
		return fmt.Errorf("restart embedded NATS: %w", err)
	}
	return nil
}

func (e *Embedded) server() *server.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// InProcessConn implements nats.InProcessConnProvider with the server that runs now.
func (e *Embedded) InProcessConn() (net.Conn, error) { return e.server().InProcessConn() }

// splitListen returns the host and port of addr. It also tries to listen there: the server
// would only log that the port is taken.
func splitListen(addr string) (host string, port int, err error) {
	if addr == "" {
		return "", 0, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", 0, fmt.Errorf("listen at --nats-listen %s: %w", addr, err)
	}
	if err := ln.Close(); err != nil {
		return "", 0, fmt.Errorf("try --nats-listen %s: %w", addr, err)
	}
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("read --nats-listen %s: %w", addr, err)
	}
	if port, err = strconv.Atoi(portText); err != nil {
		return "", 0, fmt.Errorf("read --nats-listen %s: %w", addr, err)
	}
	return host, cmp.Or(port, server.RANDOM_PORT), nil
}

// claim creates the data directory and takes its lock.
func (e *Embedded) claim(dir string) (string, error) {
	if e.memory {
		var err error
		e.tmp, e.lock, err = makeTemp("")
		return e.tmp, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make --data-dir: %w", err)
	}
	e.lock = flock.New(filepath.Join(dir, lockFile))
	held, err := e.lock.TryLock()
	if err != nil {
		return "", fmt.Errorf("lock --data-dir %s: %w", dir, err)
	}
	if !held {
		return "", fmt.Errorf("%w: another Unloop runs on %s; stop it, or give this one its own --data-dir", ErrDataDirInUse, dir)
	}
	return dir, nil
}

func (e *Embedded) free() error {
	if e.tmp != "" {
		return errors.Join(os.RemoveAll(e.tmp), e.lock.Unlock())
	}
	return e.lock.Unlock()
}

// Layout returns how streams are created on this server.
func (e *Embedded) Layout() Layout { return Layout{Memory: e.memory} }

// URL returns the server's URL for other processes; empty if the server does not listen.
// It has the token in it and must not be logged.
func (e *Embedded) URL() string {
	if e.server().Addr() == nil {
		return ""
	}
	return strings.Replace(e.server().ClientURL(), "://", "://"+e.token+"@", 1)
}

// Addr returns the address that the server listens at, without the token.
func (e *Embedded) Addr() string { return e.server().ClientURL() }

// Connect returns an in-process connection. It sends no pings: the server lives as long as
// this process.
func (e *Embedded) Connect(name string, log *slog.Logger) (*Conn, error) {
	c, err := Settings{}.connect("", name, log, nats.InProcessServer(e), nats.Token(e.token), nats.PingInterval(-1))
	if err == nil {
		c.suspect = e.suspect
	}
	return c, err
}

// Attach returns a plain in-process connection of the client.
func (e *Embedded) Attach() (*nats.Conn, error) {
	return nats.Connect("", nats.InProcessServer(e), nats.Token(e.token))
}

// Stop shuts the server down, which writes its store to disk, and unlocks the data
// directory.
func (e *Embedded) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	e.stopped = true
	e.running.Shutdown()
	e.running.WaitForShutdown()
	if err := errors.Join(e.announcement.withdraw(), e.free()); err != nil {
		slog.Warn("embedded NATS left files behind", "error", err)
	}
}

// natsLog forwards the server's log; notices become debug messages.
type natsLog struct {
	log     *slog.Logger
	suspect chan<- struct{}
}

func line(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }

func (l natsLog) Noticef(format string, v ...any) { l.log.Debug(line(format, v)) }
func (l natsLog) Debugf(format string, v ...any)  { l.log.Debug(line(format, v)) }
func (l natsLog) Tracef(format string, v ...any)  { l.log.Debug(line(format, v)) }
func (l natsLog) Warnf(format string, v ...any)   { l.log.Warn(line(format, v)) }

// Errorf also requests a check of the server.
func (l natsLog) Errorf(format string, v ...any) {
	l.log.Error(line(format, v))
	signal(l.suspect)
}

// Fatalf only logs. A server of its own process would exit; here StartEmbedded reports
// that the server is not ready.
func (l natsLog) Fatalf(format string, v ...any) { l.log.Error(line(format, v)) }
