package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/unloop/unloop/schemas/kit/natskit"
)

// natsCommands lists the commands for the NATS server.
type natsCommands struct {
	Serve   natsServeCmd   `cmd:"" default:"withargs" set:"admin=127.0.0.1:8082" help:"Run the embedded NATS server alone."`
	Config  natsConfigCmd  `cmd:"" help:"Write a configuration for NATS servers: a cluster, certificates, and users with least privilege."`
	Init    natsInitCmd    `cmd:"" help:"Create the streams and buckets, or give them more replicas or partitions."`
	Context natsContextCmd `cmd:"" help:"Write a context for the nats CLI, with the server's token or the given credentials."`
}

type natsContextCmd struct {
	client
	Name string `env:"-" default:"unloop" help:"Name of the context."`
}

// natsContext is the file format of the nats CLI.
type natsContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	Token       string `json:"token,omitempty"`
	User        string `json:"user,omitempty"`
	Password    string `json:"password,omitempty"`
	Creds       string `json:"creds,omitempty"`
	NKey        string `json:"nkey,omitempty"`
	Cert        string `json:"cert,omitempty"`
	Key         string `json:"key,omitempty"`
	CA          string `json:"ca,omitempty"`
	Domain      string `json:"jetstream_domain,omitempty"`
	InboxPrefix string `json:"inbox_prefix,omitempty"`
}

// Run writes the context into the folder of the nats CLI, readable only by the user. It does
// not print the token.
func (c *natsContextCmd) Run(std streams) error {
	if filepath.Base(c.Name) != c.Name || c.Name == "." {
		return fmt.Errorf("--name %s must be a plain name", c.Name)
	}
	made := natsContext{Description: "Unloop", Token: natskit.LocalToken(c.NATS, dataDirs()...)}
	if err := made.servers(c.NATS); err != nil {
		return err
	}
	if err := c.fill(&made); err != nil {
		return err
	}
	file, err := writeContext(c.Name, made)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Wrote %s. Try: nats --context %s sub 'loop.detected.>'\n", file, c.Name)
	if made.Token == "" && made.User == "" && c.IsZero() {
		fmt.Fprintf(std.err, "unloop: no embedded server of yours runs at %s, so the context has no token\n", made.URL)
	}
	return nil
}

// servers sets the URLs of all servers, and the credentials of the first URL that has any.
func (n *natsContext) servers(addrs string) error {
	var plain []string
	var who *url.Userinfo
	for addr := range strings.SplitSeq(addrs, ",") {
		u, err := url.Parse(strings.TrimSpace(addr))
		if err != nil || u.Host == "" {
			return errors.New("--nats must be URLs such as nats://127.0.0.1:4222, separated by commas")
		}
		if who == nil {
			who = u.User
		}
		u.User = nil
		plain = append(plain, u.String())
	}
	n.URL = strings.Join(plain, ",")
	if password, both := who.Password(); both {
		n.User, n.Password = who.Username(), password
	} else if who != nil {
		n.Token = who.Username()
	}
	return nil
}

// fill sets what the flags say. Paths of files become absolute.
func (c *natsContextCmd) fill(made *natsContext) (err error) {
	if err := c.Check(c.NATS); err != nil {
		return err
	}
	if c.UserFile != "" {
		if made.User, made.Password, err = c.User(); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		to   *string
		file string
	}{{&made.Creds, c.Creds}, {&made.NKey, c.NKey}, {&made.Cert, c.TLSCert}, {&made.Key, c.TLSKey}, {&made.CA, c.TLSCA}} {
		if f.file == "" {
			continue
		}
		if *f.to, err = filepath.Abs(f.file); err != nil {
			return fmt.Errorf("find %s: %w", f.file, err)
		}
	}
	made.Domain, made.InboxPrefix = c.Domain, c.InboxPrefix
	return nil
}

func writeContext(name string, made natsContext) (string, error) {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" { // the nats CLI has this folder on every system
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the nats CLI's folder: %w", err)
		}
		config = filepath.Join(home, ".config")
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write context: %w", err)
	}
	file := filepath.Join(config, "nats", "context", name+".json")
	return file, natskit.WritePrivate(file, string(text))
}
