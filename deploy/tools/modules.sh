#!/usr/bin/env bash
# Prints the folders of the Go modules with code, in the order of their dependencies,
# without the modules that only pin tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for module in schemas schemas/kit gateway detector embedworker notifier deploy; do
	if [[ -f $module/go.mod && -n $(find "$module" -name '*.go' -print -quit) ]]; then
		echo "$module"
	fi
done
