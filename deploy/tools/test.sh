#!/usr/bin/env bash
# All checks of the given modules, one after another, and a summary.
#
#   test.sh MODULE…           everything
#   test.sh --lint MODULE…    static checks: vet, lint, format, tidiness, generated code
#
# Everything that comes from elsewhere is installed before the first check. After that,
# module downloads are switched off, and the tests use loopback addresses only.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
tool=$PWD/deploy/tools/tool.sh
export GOTOOLCHAIN=local GOWORK=off

lint_only=
if [[ ${1-} == --lint ]]; then
	lint_only=1
	shift
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
report=$scratch/testreport
skips=$scratch/skips

summary=()
failed=0
# check NAME COMMAND… runs a check and records its result. After a failure the rest goes on.
check() {
	local name=$1 started=$SECONDS verdict=ok
	shift
	echo "== $name"
	"$@" || { verdict=FAIL && failed=1; }
	summary+=("$(printf '%-4s %4d s  %s' "$verdict" $((SECONDS - started)) "$name")")
}
note() { summary+=("$(printf 'note         %s' "$1")") && echo "note: $1"; }

# optional TOOL VARIABLE NOTE exports the path of a tool, or notes that it cannot be installed.
# It fails if tool.sh does not know the tool.
optional() {
	local path status=0
	path=$("$tool" "$1") || status=$?
	case $status in
	0) export "$2=$path" ;;
	2) return 1 ;;
	*) note "$3" ;;
	esac
}

# The variables name the paths of the real parts to the tests. A test without its part
# skips itself.
install() {
	local part variable path
	golangci_lint=$("$tool" golangci-lint) || return 1
	export UNLOOP_TEST_GOLANGCI_LINT=$golangci_lint
	[[ $lint_only ]] && return
	for part in nats:UNLOOP_TEST_NATS_CLI node:UNLOOP_TEST_NODE node-modules:UNLOOP_TEST_NODE_MODULES; do
		variable=${part#*:}
		path=$("$tool" "${part%:*}") || return 1
		export "$variable=$path"
	done
	optional redis-server UNLOOP_TEST_REDIS_SERVER "redis-server is not installed; what compares with Redis is left out" || return 1
	optional chromium UNLOOP_TEST_CHROMIUM "chromium is not installed; the dashboard is not looked at in a browser" || return 1
	optional alertmanager UNLOOP_TEST_ALERTMANAGER "prometheus-alertmanager is not installed; its test is left out" || return 1
	optional prometheus UNLOOP_TEST_PROMETHEUS "prometheus is not installed; alerts and dashboards are not tested" || return 1
	go -C deploy build -o "$report" ./tools/testreport || return 1
	# The tests that use ONNX Runtime, models, Redis 8 and the JavaScript tokenizer
	# install them, and skip what this machine cannot have.
	go -C embedworker test ./realparts -run TestEveryPartIsThere -count=1 || return 1
	race=-race
	if ! "$tool" race >/dev/null; then
		race=
		note "no C compiler: tests ran without the race detector"
	fi
}

unformatted() {
	local files
	files=$(gofmt -l "$@") && [[ -z $files ]] || { echo "run gofmt -w on:" "$files" >&2 && return 1; }
}

# The race detector makes the end-to-end tests four times as slow. They all run without
# it, and those in which much happens at once also with it: all whose names match.
# E2E_RACE=. takes all.
e2e_race=${E2E_RACE:-Abort|Away|Breaker|Chunk|Dies|Exactly|Gateway|InFlight|Killed|Learn|Leaves|Release|Restarts|SameMoment|Shutdown|WebSocket|Webhook|200MiB}

# Packages that only build, start and watch other processes. The race detector would see
# nothing of those.
starters='^github.com/unloop/unloop/deploy/(chaos|clients|dist|images)(/|$)'

# go_test MODULE ARGUMENT… runs tests of a module and records the skipped ones.
go_test() {
	go -C "$1" test -vet=off -json -timeout 10m "${@:2}" | "$report" -skips "$skips"
}

# run_tests MODULE runs the tests of a module.
run_tests() {
	local e2e=github.com/unloop/unloop/deploy/e2e packages failed=0
	mapfile -t packages < <(go -C "$1" list ./... | grep -vx "$e2e" | grep -vE "$starters")
	go_test "$1" ${race:+"$race"} "${packages[@]}" || failed=1
	if [[ $1 == deploy ]]; then
		mapfile -t packages < <(go -C deploy list ./... | grep -E "$starters")
		go_test deploy "$e2e" "${packages[@]}" || failed=1
		[[ ! $race ]] || go_test deploy "$race" -run "$e2e_race" "$e2e" || failed=1
	fi
	return "$failed"
}

# allow_skipped fails in CI if a skipped test is not on the list.
allow_skipped() {
	"$report" -summary "$skips" ${CI:+-allowed deploy/tools/skips.txt} >/dev/null
}

tidy_tools() {
	local mod
	for mod in deploy/tools/*/go.mod; do
		go -C "$(dirname "$mod")" mod tidy -diff || return 1
	done
}

check "install" install
if [[ $failed == 0 ]]; then
	for module in "$@"; do
		check "$module: go mod tidy" go -C "$module" mod tidy -diff
	done
	check "tools: go mod tidy" tidy_tools
	export GOPROXY=off
	check "gofmt" unformatted "$@"
	check "repository rules" go -C deploy run ./tools/repocheck ..
	check "generated code is current" deploy/tools/generate.sh --check
	for module in "$@"; do
		check "$module: go vet" go -C "$module" vet ./...
		check "$module: lint" env -C "$module" "$golangci_lint" run --allow-parallel-runners ./...
		[[ $lint_only ]] || check "$module: test" run_tests "$module"
	done
	[[ $lint_only ]] || check "skipped tests" allow_skipped
fi

echo
echo "summary, $SECONDS s:"
printf '  %s\n' "${summary[@]}"
[[ $lint_only || ! -x $report ]] || "$report" -summary "$skips"
exit "$failed"
