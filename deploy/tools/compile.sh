# The flags with which tools and tests are compiled. Source it.
# shellcheck shell=bash
COMPILE="-gcflags=all=-dwarf=false '-toolexec=env GOGC=400'"
