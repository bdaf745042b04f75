#!/usr/bin/env bash
# Packages the Helm chart with the version of a release, publishes it as an OCI artifact, and
# signs it.
#
#   publish-chart.sh VERSION REGISTRY [--dry-run]
set -euo pipefail
version=${1:?the version, such as 1.2.3} registry=${2:?where the chart goes, as HOST/ORGANIZATION}
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	echo "$version is no version such as 1.2.3" >&2
	exit 1
fi
chart=$(cd "$(dirname "${BASH_SOURCE[0]}")/../chart" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if [[ ${3-} == --dry-run ]]; then
	echo "helm package --version $version --app-version $version $chart; helm push unloop-$version.tgz oci://$registry/charts; cosign sign"
	exit
fi
helm package --version "$version" --app-version "$version" --destination "$out" "$chart"
pushed=$(helm push "$out/unloop-$version.tgz" "oci://$registry/charts" 2>&1 | tee /dev/stderr)
cosign sign --yes "$registry/charts/unloop@$(sed -n 's/^Digest: //p' <<<"$pushed")"
