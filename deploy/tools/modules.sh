#!/usr/bin/env bash
# Prints the folders of the Go modules that have code, the ones that others
# depend on first. The modules of tools alone are not among them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for module in schemas schemas/kit gateway detector embedworker notifier deploy; do
	if [[ -f $module/go.mod && -n $(find "$module" -name '*.go' -print -quit) ]]; then
		echo "$module"
	fi
done
