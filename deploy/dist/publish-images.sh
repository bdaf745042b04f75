#!/usr/bin/env bash
# Builds the images of a release for all platforms, publishes them with provenance and a bill of
# materials, and signs them.
#
#   publish-images.sh BAKEFILE REGISTRY [--dry-run]
set -euo pipefail
file=${1:?the docker-bake.json of a release} registry=${2:?where images go, as HOST/ORGANIZATION}
overrides=()
while read -r target tag; do
	overrides+=(--set "$target.tags=$registry/$target:$tag")
done < <(python3 - "$file" <<'PY'
import json, sys
for name, target in json.load(open(sys.argv[1]))["target"].items():
    print(name, target["tags"][0].rsplit(":", 1)[1])
PY
)
((${#overrides[@]})) || { echo "$file names no images" >&2 && exit 1; }
if [[ ${3-} == --dry-run ]]; then
	printf 'docker buildx bake --file %s --push' "$file"
	printf ' %s' "${overrides[@]}"
	echo
	exit
fi
metadata=$(mktemp)
trap 'rm -f "$metadata"' EXIT
docker buildx bake --file "$file" --push --provenance mode=max --sbom true --metadata-file "$metadata" "${overrides[@]}"
python3 - "$metadata" "$registry" <<'PY' | xargs -n 1 cosign sign --yes
import json, sys
for name, built in json.load(open(sys.argv[1])).items():
    if "containerimage.digest" in built:
        print(f"{sys.argv[2]}/{name}@{built['containerimage.digest']}")
PY
