#!/usr/bin/env bash
# Builds the commands of the given modules into a folder: those in cmd/, and of deploy
# the unloop binary and the health check of the images.
#
#   build.sh OUT MODULE…
#
# MODULE is a folder, or a folder of one command such as deploy/unloop.
# CGO_ENABLED selects whether cgo is used. Default: if there is a C compiler. STRIP=1 leaves
# debug information out. VERSION and REVISION are what the binaries say of themselves;
# default: what Go reads from the repository.
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

info=github.com/unloop/unloop/schemas/kit/service
ldflags="${STRIP:+-s -w }${VERSION:+-X $info.version=$VERSION }${REVISION:+-X $info.revision=$REVISION}"

# progress passes errors and downloads on, and counts the compiled packages: a first build
# compiles many hundred, and would be silent for minutes.
progress() {
	awk '/^[A-Za-z0-9.\/_~-]+$/ { if (++n % 50) next; $0 = "bin: " n " packages compiled" } { print; fflush() }' >&2
}

build() {
	local module=$1 main=$2
	echo "bin: building $(basename "$main") (CGO_ENABLED=$CGO_ENABLED)"
	go -C "$module" build -v -trimpath -ldflags "$ldflags" -o "$out/" "./${main#"$module/"}" 2>&1 | progress
}

for module in "$@"; do
	if [[ ! -f $module/go.mod ]]; then
		build "$(dirname "$module")" "$module"
		continue
	fi
	for main in "$module"/cmd/*/ "$module"/unloop/ "$module"/images/healthcheck/; do
		[[ ! -d $main ]] || build "$module" "$main"
	done
done
