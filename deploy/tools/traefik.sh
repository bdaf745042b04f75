#!/usr/bin/env bash
# Builds the part of Traefik that a request passes, of a version, into $GOBIN/traefik:
#
#   traefik.sh VERSION
#
# All of Traefik has 2,400 packages, most of which are clients of clouds. Its static configuration
# imports them. Where that is only needed to set up tracing and metrics, other files stand in.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ours=$here/../e2e/testdata/traefik

source=$(GOWORK=off go mod download -json "github.com/traefik/traefik/v3@$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$source"/go.{mod,sum} "$source"/pkg "$copy"
chmod -R u+w "$copy"
rm -r "$copy/pkg/config/static"
mkdir "$copy/pkg/config/static" "$copy/routing"
cp "$ours/static.go.txt" "$copy/pkg/config/static/static.go"
cp "$ours/k8sdetector.go.txt" "$copy/pkg/types/k8sdetector.go"
cp "$ours/main.go.txt" "$copy/routing/main.go"
go -C "$copy" build -o "$GOBIN/traefik" ./routing
