#!/usr/bin/env bash
# Runs each fuzz test of the given modules for a short while.
#
#   FUZZTIME=10s fuzz.sh MODULE…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for module in "$@"; do
	while IFS=: read -r file name; do
		echo "== $module: $name"
		GOWORK=off go -C "$module" test -run='^$' -fuzz="^$name\$" -fuzztime="${FUZZTIME:-10s}" "./$(dirname "$file")"
	done < <(cd "$module" && grep -rhoE --include='*_test.go' --with-filename '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/')
done
