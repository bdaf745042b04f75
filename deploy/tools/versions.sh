# The versions of the tools that building and testing use; sourced by tool.sh.
# shellcheck shell=bash
GOLANGCI_LINT_VERSION=v2.15.0
CADDY_VERSION=v2.11.9
GOTESTSUM_VERSION=v1.13.0
TRAEFIK_VERSION=v3.6.7
