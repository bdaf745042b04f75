#!/usr/bin/env bash
# Builds the commands of the given modules into a folder: those in cmd/, and of deploy
# the unloop binary and the health check of the images.
#
#   build.sh OUT MODULE…
#
# CGO_ENABLED selects whether cgo is used. Default: if there is a C compiler.
set -euo pipefail
out=$1
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ -z ${CGO_ENABLED-} ]]; then
	cc=$(go env CC)
	CGO_ENABLED=$(command -v "${cc%% *}" >/dev/null && echo 1 || echo 0)
fi
export CGO_ENABLED GOWORK=off
for module in "$@"; do
	for main in "$module"/cmd/*/ "$module"/unloop/ "$module"/images/healthcheck/; do
		[[ -d $main ]] || continue
		go -C "$module" build -trimpath -o "$out/" "./${main#"$module/"}"
		echo "bin: $(basename "$main") (CGO_ENABLED=$CGO_ENABLED)"
	done
done
