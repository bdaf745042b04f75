// Package access guards Unloop's ports: it reads and compares keys, limits how often an
// address may send a wrong one, and refuses requests from web pages.
//
// It knows neither tokens of other issuers nor what a port serves.
package access

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecretFile is the largest size of a file with keys, in bytes.
const maxSecretFile = 1 << 20

// Secret reads a secret from the place that a flag names: env:NAME is an environment
// variable, file:PATH a file. Flags never contain a secret, since other users of the
// machine can list them. White space around the secret is dropped. Errors name the place,
// never its content.
func Secret(place string) (string, error) {
	source, name, _ := strings.Cut(place, ":")
	var text string
	switch {
	case source == "env" && name != "":
		text = os.Getenv(name)
	case source == "file" && name != "":
		var err error
		if text, err = readFile(name); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("a key must be given as env:VARIABLE or file:PATH, so that the process list does not show it")
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("%s is not set or empty", describe(source, name))
	}
	return text, nil
}

func describe(source, name string) string {
	if source == "env" {
		return "environment variable " + name
	}
	return "file " + name
}

func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read from
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	if len(data) > maxSecretFile {
		return "", fmt.Errorf("read key: file %s has more than %d bytes", name, maxSecretFile)
	}
	return string(data), nil
}
