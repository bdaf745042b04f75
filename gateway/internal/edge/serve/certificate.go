package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// reread is how long a certificate is used before its files are read again.
const reread = 10 * time.Second

// Certificate names the PEM files of a server's certificate and key. The zero value means no
// TLS.
type Certificate struct {
	File string `name:"tls-cert" type:"path" placeholder:"FILE" help:"PEM file with the gateway's certificate and its intermediates; turns TLS on. Reloaded when it changes."`
	Key  string `name:"tls-key" type:"path" placeholder:"FILE" help:"PEM file with the certificate's private key."`
}

// Listen listens at the address in a flag, with TLS if there is a certificate. The error
// names the flag.
func Listen(flag, addr string, files Certificate, log *slog.Logger) (net.Listener, error) {
	if (files.File == "") != (files.Key == "") {
		return nil, errors.New("--tls-cert and --tls-key belong together: set both or neither")
	}
	pair := &pair{files: files, log: log}
	if files.File != "" {
		if err := pair.read(); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %s %s: %w", flag, addr, err)
	}
	if files.File == "" {
		return listener, nil
	}
	return tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: pair.get,
	}), nil
}

// pair is a certificate with its key, as last read.
type pair struct {
	files   Certificate
	log     *slog.Logger
	mu      sync.Mutex
	current *tls.Certificate
	last    time.Time
}

// read reads the files.
func (p *pair) read() error {
	certificate, err := tls.LoadX509KeyPair(p.files.File, p.files.Key)
	p.last = time.Now()
	if err != nil {
		return fmt.Errorf("read --tls-cert %s and --tls-key %s: %w", p.files.File, p.files.Key, err)
	}
	p.current = &certificate
	return nil
}

// get returns the certificate for a handshake. If the files can't be read again, it returns
// the old one.
func (p *pair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) >= reread {
		if err := p.read(); err != nil {
			p.log.Warn("keeping the old certificate", "error", err)
		}
	}
	return p.current, nil
}
