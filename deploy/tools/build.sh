#!/usr/bin/env bash
# Builds the commands of the given modules that users run into a folder: all of
# cmd/, and of deploy the unloop binary and the images' health check.
#
#   build.sh OUT MODULE…
#
# With cgo where a C compiler is there and without it elsewhere, unless
# CGO_ENABLED says.
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
