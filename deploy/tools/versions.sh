# The versions of the tools that building and testing use; sourced by tool.sh.
# shellcheck shell=bash
GOLANGCI_LINT_VERSION=v2.15.0
BUF_VERSION=v1.50.0
PROTOC_GEN_GO_VERSION=v1.36.12 # as google.golang.org/protobuf in schemas/go.mod
