#!/usr/bin/env bash
# All checks and tests of the given modules, and a summary.
#
#   test.sh MODULE…           everything but what follows
#   test.sh --lint MODULE…    static checks: lint, format, tidiness, generated code
#   test.sh --sdks            end-to-end tests of official Go SDKs and of Traefik, and static checks of these tests
#
# While the real parts that tests use are installed, everything is compiled. Then the tests
# run. The static checks run beside all that at a lower priority, and are printed at the end.
# Tests download no modules, and use loopback addresses only.
#
# Downloads are tried again, and bounded in time. No test sees the variables and files of
# whoever runs it, but for caches.
#
# All modules are compiled as one workspace, with the flags of tool.sh, so that no package is
# compiled twice. The Go SDKs and Traefik are left out because they take as long to compile as the
# rest of the end-to-end tests.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
tool=$PWD/deploy/tools/tool.sh
# shellcheck source=again.sh
source deploy/tools/again.sh
# shellcheck source=compile.sh
source deploy/tools/compile.sh
export GOTOOLCHAIN=local GOWORK=$PWD/go.work GOFLAGS="${GOFLAGS-} $COMPILE"

lint_only= sdks_only=
case ${1-} in
--lint) lint_only=1 && shift ;;
--sdks) sdks_only=1 && set -- deploy ;;
esac
modules=("$@")
patterns=("${modules[@]/#/./}")
patterns=("${patterns[@]/%//...}")

scratch=$(mktemp -d)
declare -A groups # of processes in the background, by their function
trap 'for group in "${groups[@]}"; do kill -- "-$group"; done; rm -rf "$scratch"' EXIT
events=$scratch/events # of all tests, as go test -json writes them
summary=$scratch/summary
mkdir "$events"
touch "$summary"

# check NAME COMMAND… runs a check and records its result. After a failure the rest goes on.
check() {
	local name=$1 started=$SECONDS verdict=ok
	shift
	echo "== $name"
	"$@" || verdict=FAIL
	printf '%-4s %4d s  %s\n' "$verdict" $((SECONDS - started)) "$name" >>"$summary"
	[[ $verdict == ok ]]
}
note() { printf 'note         %s\n' "$1" >>"$summary" && echo "note: $1"; }
has() { [[ " ${modules[*]} " == *" $1 "* ]]; }

# part TOOL VARIABLE exports the path of a tool.
part() {
	local path
	path=$("$tool" "$1") && export "$2=$path"
}

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

# modules downloads what the tests import, Bifrost's core, and the module with which those of the images read
# compose.yaml; and installs what says how they are compiled. Meanwhile it compiles what needs
# no download.
modules() {
	go build net/http &
	again 15 "the Go modules of the tests" go list -deps -test -f '{{""}}' "${patterns[@]}" || return 1
	GOWORK=off again 15 "the Go modules that read compose.yaml" go -C deploy/tools/compose list -deps -f '{{""}}' . || return 1
	GOWORK=off again 15 "the Go modules of Bifrost's plugin" go -C deploy/beside/bifrost list -deps -f '{{""}}' . || return 1
	wait $!
	gotestsum=$("$tool" gotestsum) || return 1
	race=-race
	if ! "$tool" race >/dev/null; then
		race=
		note "no C compiler: tests ran without the race detector"
	fi
}

# The variables name the paths of the real parts to the tests. A test without its part
# skips itself.
install() {
	part node UNLOOP_TEST_NODE && part node-modules UNLOOP_TEST_NODE_MODULES || return 1
	optional redis-server UNLOOP_TEST_REDIS_SERVER "redis-server is not installed; what compares with Redis is left out" || return 1
	optional chromium UNLOOP_TEST_CHROMIUM "chromium is not installed; the dashboard is not looked at in a browser" || return 1
	optional alertmanager UNLOOP_TEST_ALERTMANAGER "prometheus-alertmanager is not installed; its test is left out" || return 1
	optional prometheus UNLOOP_TEST_PROMETHEUS "prometheus is not installed; alerts and dashboards are not tested" || return 1
	optional nginx UNLOOP_TEST_NGINX "nginx is not installed; its latch is not tested" || return 1
	# What is built comes last: its packages may be compiled by then.
	part nats UNLOOP_TEST_NATS_CLI || return 1
	# The tests that use ONNX Runtime, models, Redis 8 and the JavaScript tokenizer
	# install them, and skip what this machine cannot have.
	go test -vet=off -timeout 30m ./embedworker/realparts -run TestEveryPartIsThere -count=1
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
# nothing of those, or make the binary that they start seven times as slow (bench, cli):
# that system runs with it in the end-to-end tests.
starters='^github.com/unloop/unloop/deploy/(bench|chaos|clients|dist|images|observe|unloop/cli)(/|$)'

# Packages that measure time or results of code whose own packages are tested with the race
# detector, and those that start no goroutine and compute for long.
measuring='^github.com/unloop/unloop/(deploy/(detection|scan)|detector/internal/(counter|toolloop)|gateway/internal/wire/(answerscan|encoding|provider/conformance))$'

# go_test ARGUMENT… runs tests, prints the line of each package and the output of failed
# tests, and keeps the events. The static checks vet them. A package that hangs is killed,
# and shows where.
go_test() {
	# At its end the race detector waits a second for more races, in each of 90 processes.
	GORACE=atexit_sleep_ms=0 "$gotestsum" --format pkgname-and-test-fails --format-icons text --format-hide-empty-pkg --hide-summary all \
		--jsonfile "$(mktemp "$events/XXXXXX")" -- -vet=off -timeout 10m "$@"
}

# strangers makes the variables and files of whoever runs the tests unknown to them.
strangers() {
	local name
	GOENV=$(go env GOENV) && export GOENV # where it was
	for name in $(compgen -e); do
		case $name in
		UNLOOP_TEST_*) ;;
		UNLOOP_* | LOOP_* | OTEL_* | OPENAI_* | ANTHROPIC_* | GEMINI_* | GOOGLE_GEMINI_*) unset "$name" ;;
		esac
	done
	export XDG_CONFIG_HOME=$scratch/config XDG_STATE_HOME=$scratch/state XDG_RUNTIME_DIR=$scratch/run
	mkdir -m 700 "$XDG_CONFIG_HOME" "$XDG_STATE_HOME" "$XDG_RUNTIME_DIR"
}

e2e=github.com/unloop/unloop/deploy/e2e
arrows=github.com/unloop/unloop/deploy/tools/arrows # tests the linter, behind which it runs

# plain and raced are the packages that are tested without and with the race detector.
select_packages() {
	mapfile -t plain < <(go list "${patterns[@]}" | grep -E "^$e2e$|$starters|$measuring")
	mapfile -t raced < <(go list "${patterns[@]}" | grep -vxF "$(printf '%s\n' "${plain[@]}")" | grep -vx "$arrows")
	((${#plain[@]} + ${#raced[@]})) || { echo "no packages in ${modules[*]}" >&2 && return 1; }
}

# compile compiles all tests, and links none.
compile() {
	local build=(go list -export -deps -test -f '{{""}}')
	[[ ${#plain[@]} == 0 ]] || "${build[@]}" "${plain[@]}" || return 1
	[[ ${#raced[@]} == 0 ]] || "${build[@]}" ${race:+"$race"} "${raced[@]}" || return 1
	[[ -z $race ]] || ! has deploy || "${build[@]}" "$race" "$e2e"
}

run_plain() { [[ ${#plain[@]} == 0 ]] || go_test "${plain[@]}"; }

run_race() { [[ ${#raced[@]} == 0 ]] || go_test ${race:+"$race"} "${raced[@]}"; }

run_e2e_race() { go_test "$race" -run "$e2e_race" "$e2e"; }

tests() {
	check "tests without the race detector" run_plain
	check "tests${race:+ with the race detector}" run_race
	if [[ $race ]] && has deploy; then
		check "end-to-end tests with the race detector" run_e2e_race
	fi
	[[ ! ${CI-} ]] || check "skipped tests" allow_skipped
}

# allow_skipped fails if a skipped test is not on the list.
allow_skipped() {
	local test pattern unlisted=
	while read -r test; do
		while read -r pattern; do
			[[ $pattern && $pattern != \#* && $test == $pattern ]] && continue 2
		done <deploy/tools/skips.txt
		echo "skipped without being on the list of tests that may be: $test"
		unlisted=1
	done < <(cat "$events"/* | sed -nE 's|.*"Action":"skip","Package":"(.*/)?([^/"]*)","Test":"([^"]*)".*|\2.\3|p')
	[[ ! $unlisted ]]
}

tidy_tools() {
	local mod
	for mod in deploy/tools/*/go.mod deploy/beside/*/go.mod; do
		go -C "$(dirname "$mod")" mod tidy -diff || return 1
	done
}

tidy() { go -C "$1" mod tidy -diff; }

install_linter() { golangci_lint=$("$tool" golangci-lint); }

# The larger heap saves a fifth of the linter's time, and takes 4 GB instead of 2.5.
lint() { GOGC=200 "$golangci_lint" run --allow-parallel-runners "$@"; }

test_arrows() { UNLOOP_TEST_GOLANGCI_LINT=$golangci_lint go_test "$arrows"; }

static() {
	local module
	for module in "${modules[@]}"; do
		GOWORK=off check "$module: go mod tidy" tidy "$module"
	done
	GOWORK=off check "tools: go mod tidy" tidy_tools
	check "gofmt" unformatted "${modules[@]}"
	check "repository rules" go -C deploy run ./tools/repocheck ..
	check "generated code is current" deploy/tools/generate.sh --check
	check "install the linter" install_linter || return
	export GOPROXY=off
	for module in "${modules[@]}"; do
		GOWORK=off check "$module alone: go vet" go -C "$module" vet ./...
	done
	check "lint" lint "${patterns[@]}"
	[[ $lint_only ]] || ! has deploy || check "import rules" test_arrows
}

# in_background COMMAND… runs a check in a process group of its own, which ends with this
# script. Its output waits in a file until show prints it.
in_background() {
	set -m
	"$@" >"$scratch/$1.log" 2>&1 &
	set +m
	groups[$1]=$!
}
show() {
	wait "${groups[$1]}"
	unset "groups[$1]"
	cat "$scratch/$1.log"
}

everything() {
	check "Go modules" modules && check "packages" select_packages || return
	in_background static
	renice -n 10 -g "${groups[static]}" >/dev/null
	in_background compiled
	check "install" install
	local installed=$?
	show compiled
	((installed)) || (export GOPROXY=off && check "environment of the tests" strangers && tests)
	show static
	! has deploy || note "make sdks tests official Go SDKs and Traefik"
}
compiled() { check "compile" compile >/dev/null; }

# The end-to-end tests in files with the build constraint sdks.
test_sdks() {
	local names
	names=$(grep -l '^//go:build sdks$' deploy/e2e/*_test.go | xargs sed -n 's/^func \(Test[A-Za-z0-9_]*\).*/\1/p' | paste -sd'|') && [[ $names ]] || return 1
	go_test -tags sdks -run "^($names)\$" "$e2e"
}

sdks() {
	check "Go modules" modules || return
	check "install Traefik" part traefik UNLOOP_TEST_TRAEFIK || return
	check "install the linter" install_linter || return
	export GOPROXY=off
	check "go vet" go vet -tags sdks "$e2e"
	check "lint" lint --build-tags sdks ./deploy/e2e
	(check "environment of the tests" strangers && check "tests of Go SDKs and Traefik" test_sdks)
}

if [[ $lint_only ]]; then
	static
elif [[ $sdks_only ]]; then
	sdks
else
	everything
fi

if [[ $(ls "$events") ]]; then
	echo
	echo "skipped and failed tests:"
	"$gotestsum" --format none --raw-command -- cat "$events"/*
fi
echo
echo "summary, $SECONDS s:"
sed 's/^/  /' "$summary"
if grep -q '^FAIL' "$summary"; then
	echo "failed checks: $(sed -n 's/^FAIL *[0-9]* s  //p' "$summary" | paste -sd';' | sed 's/;/; /g')"
	exit 1
fi
