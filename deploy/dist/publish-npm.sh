#!/usr/bin/env bash
# Publishes the npm packages of a release with their provenance: those with binaries first, and the
# package that depends on them last. A version such as 1.2.3-rc.1 does not become npm's latest.
#
#   publish-npm.sh FOLDER VERSION [--dry-run]
set -euo pipefail
folder=${1:?the folder of a release} version=${2:?the version, such as 1.2.3}
last=$folder/unloop-$version.tgz tag=latest
[[ $version != *-* ]] || tag=next
[[ -f $last ]] || { echo "$last is not there" >&2 && exit 1; }
packages=()
for package in "$folder"/*.tgz; do
	[[ $package == "$last" ]] || packages+=("$package")
done
for package in "${packages[@]}" "$last"; do
	command=(npm publish --provenance --access public --tag "$tag" "$(realpath "$package")")
	if [[ ${3-} == --dry-run ]]; then
		echo "${command[@]}"
	else
		"${command[@]}"
	fi
done
