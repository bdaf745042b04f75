# The versions of the tools that building and testing use; sourced by tool.sh.
# shellcheck shell=bash
GOLANGCI_LINT_VERSION=v2.15.0
