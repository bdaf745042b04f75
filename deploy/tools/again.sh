# For scripts that download: defines
#
#   again MINUTES WHAT COMMAND…
#
# which runs a command that fetches WHAT, each time for so many minutes at most, until it
# succeeds, three times in all. What it prints goes to standard error.
again() {
	local minutes=$1 what=$2 tries=3 try status
	shift 2
	[[ -z $(command -v timeout) ]] || set -- timeout -k 10 "${minutes}m" "$@"
	for ((try = 1; ; try++)); do
		status=0
		"$@" >&2 || status=$?
		[[ $status != 0 ]] || return 0
		[[ $status != 124 ]] || echo "tools: $what took more than $minutes minutes" >&2
		if ((try == tries)); then
			echo "tools: $what could not be fetched in $tries tries; the last one ended with status $status: $*" >&2
			return 1
		fi
		echo "tools: $what could not be fetched; trying again in $((10 * try)) s" >&2
		sleep $((10 * try))
	done
}
