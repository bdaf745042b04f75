package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// suites are the packages with benchmarks of their own.
var suites = []struct{ what, module, pkg string }{
	{"fingerprints and inspection of bodies", "schemas", "./fingerprint"},
	{"policies", "schemas", "./policy"},
	{"inspection of requests", "gateway", "./..."},
	{"tokens and embeddings", "embedworker", "./internal/wordpiece"},
	{"tokens and embeddings", "embedworker", "./internal/embed"},
	{"vector stores", "embedworker", "./internal/vectors"},
}

// suiteTimeout bounds one package's benchmarks, and the build before them.
const suiteTimeout = 90 * time.Second

// modules runs the modules' own benchmarks briefly and prints their results.
func (b *bench) modules(ctx context.Context) error {
	var broken []error
	for _, suite := range suites {
		b.title("%s: go test -bench in %s/%s", suite.what, suite.module, strings.TrimPrefix(suite.pkg, "./"))
		if err := b.suite(ctx, suite.module, suite.pkg); err != nil {
			broken = append(broken, err)
		}
	}
	return errors.Join(broken...)
}

func (b *bench) suite(ctx context.Context, module, pkg string) error {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", ".", "-benchtime", "100ms", "-benchmem", pkg)
	cmd.Dir = filepath.Join(b.root, module)
	out, err := cmd.CombinedOutput()
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Benchmark") {
			fmt.Fprintln(b.out, lines.Text())
		}
	}
	if err != nil {
		return fmt.Errorf("benchmarks of %s/%s: %w\n%s", module, pkg, err, out)
	}
	return nil
}
