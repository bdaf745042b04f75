# The flags with which tools and tests are compiled: without debug information, which takes
# a fifth of the time, and with a larger heap for the compiler and the linker, which spend a
# quarter of theirs on garbage collection. A larger heap changes nothing in what is compiled,
# so that the build cache is shared. Source it.
# shellcheck shell=bash
COMPILE="-gcflags=all=-dwarf=false '-toolexec=env GOGC=400'"
