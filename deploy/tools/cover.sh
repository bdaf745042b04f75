#!/usr/bin/env bash
# Measures which statements of production code run in the tests of all modules together,
# including the binaries that tests start.
#
#   cover.sh OUT MODULE…      writes OUT/cover.out (for `go tool cover`) and prints a table
#
# Generated code, test helpers, benchmarks and the repository's own tools do not count.
set -euo pipefail
out=$1
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rm -rf "$out/data"
mkdir -p "$out/data/binaries"

tool=$PWD/deploy/tools/tool.sh
export GOTOOLCHAIN=local GOWORK=off
for part in nats:UNLOOP_TEST_NATS_CLI node:UNLOOP_TEST_NODE node-modules:UNLOOP_TEST_NODE_MODULES \
	redis-server:UNLOOP_TEST_REDIS_SERVER chromium:UNLOOP_TEST_CHROMIUM alertmanager:UNLOOP_TEST_ALERTMANAGER golangci-lint:UNLOOP_TEST_GOLANGCI_LINT; do
	path=$("$tool" "${part%:*}")
	export "${part#*:}=$path"
done

# Binaries that tests build or start are measured too: they inherit the flags, and
# write into GOCOVERDIR when they end. go test sets that variable itself, so it is set
# again behind go test.
export GOFLAGS="${GOFLAGS-} -tags=sdks -cover -covermode=atomic -coverpkg=github.com/unloop/unloop/..."
failed=0
for module in "$@"; do
	mkdir -p "$out/data/$module"
	go -C "$module" test -timeout 20m -exec "env GOCOVERDIR=$out/data/binaries" ./... -args -test.gocoverdir="$out/data/$module" || failed=1
done
unset GOFLAGS

folders=$(find "$out/data" -name 'covmeta.*' -exec dirname {} + | sort -u | paste -sd,)
aside='\.pb\.go|test/|/deploy/(bench|tools|scripted)|realparts'
go tool covdata textfmt -i="$folders" -o=/dev/stdout | grep -vE "$aside" >"$out/cover.out"
go tool covdata percent -i="$folders" | grep -vE "pb\s|$aside"
GOWORK='' go tool cover -func="$out/cover.out" | tail -n 1
exit "$failed"
