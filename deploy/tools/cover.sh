#!/usr/bin/env bash
# Measures which statements of production code run in the tests of all modules together,
# including the binaries that tests start.
#
#   cover.sh OUT MODULE…      writes OUT/cover.out (for `go tool cover`) and prints a table
#
# The table leaves out generated code, test helpers, benchmarks, the program that breaks
# clusters and the repository's own tools.
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
go tool covdata textfmt -i="$folders" -o="$out/cover.out"

awk '
	FNR == 1 { next } # mode: atomic
	{
		split($1, at, ":")
		file = at[1]
		sub("^github.com/unloop/unloop/", "", file)
		if (file ~ /\.pb\.go$|test\/|^deploy\/(bench|tools|scripted)|realparts/) next
		statements[$1] = $2
		if ($3 > 0) run[$1] = 1
		dir = file
		sub("/[^/]*$", "", dir)
		package[$1] = dir
	}
	END {
		for (s in statements) {
			all[package[s]] += statements[s]; total += statements[s]
			if (s in run) { hit[package[s]] += statements[s]; covered += statements[s] }
		}
		for (p in all) printf "%6.1f %%  %5d  %s\n", 100 * hit[p] / all[p], all[p], p | "sort -n"
		close("sort -n")
		printf "%6.1f %%  %5d  all\n", 100 * covered / total, total
	}' "$out/cover.out"
exit "$failed"
