#!/usr/bin/env bash
# Prints the path of a tool. A missing tool is installed:
#
#   tool.sh TOOL [VERSION]
#
# Go tools are built from source into a cache folder, with one folder for each version,
# so that checkouts with different versions do not disturb each other. Debian packages
# are installed only as root. If a tool cannot be installed, the script fails.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=again.sh
source "$here/again.sh"
# shellcheck source=compile.sh
source "$here/compile.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/unloop

GOLANGCI_LINT_VERSION=v2.15.0
CADDY_VERSION=v2.11.9
GOTESTSUM_VERSION=v1.13.0
TRAEFIK_VERSION=v3.6.7

say() { echo "tools: $*" >&2; }

# publish FROM TO moves a finished folder into place. The result of a run that was
# faster stays.
publish() {
	mkdir -p "$(dirname "$2")"
	mv -T "$1" "$2" 2>/dev/null || rm -rf "$1"
	[[ -d $2 ]]
}

# A tool that was built by an older Go cannot read the code of a newer one.
go_series() { go env GOVERSION | grep -oE '^go[0-9]+\.[0-9]+'; }

# go_tool NAME VERSION COMMAND… runs a command that builds NAME into $GOBIN, with the flags
# of tests, so that packages which both use are compiled once.
go_tool() {
	local name=$1 version=$2 dir staging
	shift 2
	dir=$cache/tools/$name-$version-$(go_series)
	if [[ ! -x $dir/$name ]]; then
		say "building $name $version (once)"
		mkdir -p "$cache/tools"
		staging=$(mktemp -d "$cache/tools/.$name.XXXXXX")
		GOBIN=$staging GOWORK=off GOFLAGS="-buildvcs=false $COMPILE '-ldflags=-s -w'" \
			again 30 "the Go modules of $name" "$@"
		publish "$staging" "$dir"
	fi
	echo "$dir/$name"
}

# The nats command cannot be installed by name and version, since one of its dependencies
# has a replacement. As a tool of a module of its own it can.
nats_cli() {
	local version
	version=$(awk '$1 == "github.com/nats-io/natscli" { print $2 }' "$here/nats/go.mod")
	go_tool nats "$version" go -C "$here/nats" install github.com/nats-io/natscli/nats
}

# traefik has its version and the files of ours that are compiled with it in its name.
traefik() {
	local files
	files=$(cat "$here/traefik.sh" "$root"/deploy/e2e/testdata/traefik/* | sha256sum | cut -c1-8)
	go_tool traefik "$TRAEFIK_VERSION-$files" "$here/traefik.sh" "$TRAEFIK_VERSION"
}

# apt PACKAGE… installs Debian packages, as root alone.
apt() {
	[[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || return 1
	local options=(-qq -o Acquire::Retries=3 -o Acquire::http::Timeout=60 -o DPkg::Lock::Timeout=300)
	say "installing $* (once)"
	again 10 "Debian's lists of packages" apt-get update "${options[@]}" &&
		DEBIAN_FRONTEND=noninteractive again 20 "the Debian packages $*" apt-get install "${options[@]}" -y --no-install-recommends "$@"
}

# from_debian COMMAND PACKAGE… prints where a command is.
from_debian() {
	local command=$1
	shift
	command -v "$command" || { apt "$@" && command -v "$command"; }
}

# server COMMAND PACKAGE is from_debian for a server that tests start by themselves. The
# policy file keeps the package from starting a service.
server() {
	command -v "$1" && return
	local policy=/usr/sbin/policy-rc.d made=
	if [[ $(id -u) == 0 && ! -e $policy ]]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=1
	fi
	from_debian "$1" "$2" || { [[ $made ]] && rm -f "$policy"; return 1; }
	if [[ $made ]]; then rm -f "$policy"; fi
}

# npm_modules FOLDER WHAT installs the npm packages that a folder's package.json and lock
# file name, keyed by these files.
npm_modules() {
	local from=$root/$1 dir staging
	from_debian npm nodejs npm >/dev/null
	dir=$cache/npm/$(cat "$from/package.json" "$from/package-lock.json" | sha256sum | cut -c1-16)
	if [[ ! -d $dir/node_modules ]]; then
		say "installing $2 (once)"
		mkdir -p "$cache/npm"
		staging=$(mktemp -d "$cache/npm/.staging.XXXXXX")
		cp "$from/package.json" "$from/package-lock.json" "$staging/"
		again 15 "$2 from npm" npm ci --prefix "$staging" --fetch-timeout=60000 --ignore-scripts --no-audit --no-fund --loglevel=error
		publish "$staging" "$dir"
	fi
	echo "$dir/node_modules"
}

# npm_pack PACKAGE@VERSION prints where the archive of an npm package is.
npm_pack() {
	local dir=$cache/npm/$1 staging
	from_debian npm nodejs npm >/dev/null
	if [[ ! -d $dir ]]; then
		say "fetching $1 (once)"
		mkdir -p "$cache/npm"
		staging=$(mktemp -d "$cache/npm/.staging.XXXXXX")
		again 8 "$1 from npm" npm pack "$1" --silent --pack-destination "$staging"
		publish "$staging" "$dir"
	fi
	echo "$dir"/*.tgz
}

# redis_8 prints an installed Redis 8, or that of Debian 13, which it unpacks with its libraries
# and with package lists of its own. It runs on any Linux through its own loader.
redis_8() {
	local dir=$cache/redis/8-$(uname -m) into mirror deb options
	! redis-server --version 2>/dev/null | grep -qE 'v=([89]|[1-9][0-9])\.' || { command -v redis-server; return; }
	if [[ ! -d $dir ]]; then
		say "unpacking Redis 8 (once)"
		# shellcheck disable=SC2016 # apt reads the variable
		mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -E '/debian/?$' | head -n 1)
		mkdir -p "$cache/redis"
		into=$(mktemp -d "$cache/redis/.staging.XXXXXX")
		mkdir -p "$into"/{lists/partial,cache/archives/partial,debs,root}
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$into/sources.list"
		touch "$into/status"
		options=(-q -o "Dir::Etc::sourcelist=$into/sources.list" -o Dir::Etc::sourceparts=/dev/null
			-o "Dir::State=$into" -o "Dir::State::lists=$into/lists" -o "Dir::State::status=$into/status" -o "Dir::Cache=$into/cache"
			-o Acquire::Languages=none -o APT::Sandbox::User=root -o Acquire::http::Timeout=60)
		again 8 "Debian's lists of packages" apt-get "${options[@]}" update
		(cd "$into/debs" && again 8 "Redis 8" apt-get "${options[@]}" download redis-server redis-tools libc6 libatomic1 libjemalloc2 \
			liblzf1 libssl3t64 libstdc++6 libsystemd0 libgcc-s1 libcap2 zlib1g libzstd1)
		for deb in "$into"/debs/*.deb; do dpkg-deb -x "$deb" "$into/root"; done
		cat >"$into/redis-server" <<-'EOF'
			#!/bin/sh
			lib=$(dirname "$0")/root/usr/lib
			for loader in "$lib"/*/ld-linux-*.so.* "$lib"/ld-linux-*.so.*; do
				[ ! -x "$loader" ] || exec "$loader" --library-path "$(echo "$lib"/*-linux-gnu*)" "$lib/../bin/redis-server" "$@"
			done
		EOF
		chmod +x "$into/redis-server"
		publish "$into" "$dir"
	fi
	echo "$dir/redis-server"
}

# The race detector needs cgo and so a C compiler.
race() {
	local cc
	cc=$(go env CC)
	from_debian "${cc%% *}" gcc libc6-dev
}

case ${1-} in
golangci-lint) go_tool "$1" "$GOLANGCI_LINT_VERSION" go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$GOLANGCI_LINT_VERSION" ;;
gotestsum) go_tool "$1" "$GOTESTSUM_VERSION" go install "gotest.tools/gotestsum@$GOTESTSUM_VERSION" ;;
nats) nats_cli ;;
node) from_debian node nodejs npm ;;
node-modules) npm_modules deploy/e2e/sdk "the npm SDKs" ;;
transformers) npm_modules embedworker/realparts/node "the JavaScript tokenizer" ;;
onnxruntime) npm_pack "onnxruntime-node@${2:?VERSION}" ;;
redis-8) redis_8 ;;
client-programs) npm_modules deploy/clients/programs "coding agents and frameworks, about 2.2 GB" ;;
ruby) from_debian ruby ruby ;;
redis-server) server redis-server redis-server ;;
chromium) from_debian chromium chromium ;;
alertmanager) server prometheus-alertmanager prometheus-alertmanager ;;
prometheus) server prometheus prometheus ;;
nginx) server nginx nginx-light ;;
caddy) go_tool caddy "$CADDY_VERSION" go install "github.com/caddyserver/caddy/v2/cmd/caddy@$CADDY_VERSION" ;;
traefik) traefik ;;
race) race ;;
*)
	sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	echo "TOOL is one of: $(sed -n 's/^\([a-z0-9-]*\)) .* ;;$/\1/p' "${BASH_SOURCE[0]}" | xargs)" >&2
	exit 2
	;;
esac
