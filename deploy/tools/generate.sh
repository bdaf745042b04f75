#!/usr/bin/env bash
# Generates the Go code of the protobuf messages.
#
#   generate.sh          writes it into schemas/
#   generate.sh --check  writes nothing, and fails where it would change something
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
schemas=$(cd "$tools/../../schemas" && pwd)

generate() {
	GOWORK=off go -C "$tools/.." run ./tools/protogen "$schemas/proto" "$1" github.com/unloop/unloop/schemas
}

cd "$schemas"
if [[ ${1-} != --check ]]; then
	generate "$schemas"
	exit
fi

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
generate "$fresh"
committed=$(find . -name '*.pb.go' | sort)
generated=$(cd "$fresh" && find . -name '*.pb.go' | sort)
if [[ $committed != "$generated" ]]; then
	diff <(echo "$committed") <(echo "$generated") >&2 || true
	echo "generated files come and go: run make generate" >&2
	exit 1
fi
for file in $generated; do
	diff -u "$file" "$fresh/$file" >&2 || { echo "schemas/$file is stale: run make generate" >&2; exit 1; }
done
