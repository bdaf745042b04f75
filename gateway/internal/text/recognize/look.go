package recognize

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/schemas/toolname"
)

var (
	// lookingWords are in the names of tools that look at something that others may change.
	lookingWords = []string{"check", "get", "read", "list", "fetch", "view", "show", "describe", "query", "lookup", "retrieve", "inspect", "sql", "ls", "snapshot", "screenshot", "search", "find", "http", "browse", "visit", "navigate", "reload", "refresh"}
	// fileNames are the names of arguments that hold a file's path.
	fileNames = []string{"path", "file", "file_path", "filePath", "filename", "paths", "files", "absolute_path"}
	// movingFiles are in the names of files that other processes write to.
	movingFiles = []string{".log", ".out", ".err", "/proc/", "nohup", "status", "progress"}
	// lookers are commands that only look at something that others may change.
	lookers = []string{
		"ls", "test", "[", "[[", "stat", "df", "du", "free", "uptime", "date", "who", "nvidia-smi", "squeue", "sacct", "qstat", "bjobs", "dig", "nslookup", "host",
		"lsof", "netstat", "ss", "journalctl", "curl", "wget", "true", "false", "echo", "cd",
	}
	// clients are commands that only look if one of clientWords is among their words.
	clients = []string{
		"aws", "gcloud", "az", "kubectl", "oc", "helm", "docker", "podman", "gh", "glab", "heroku", "fly", "flyctl", "vercel", "nomad", "consul", "terraform", "argocd",
		"flux", "git", "redis-cli", "psql", "mysql", "sqlite3",
	}
	clientWords = []string{"get", "list", "ls", "describe", "show", "view", "logs", "inspect", "info", "top", "fetch", "pull", "remote", "events", "history", "select"}
	// changingParts are in commands that change something.
	changingParts = []string{"insert ", "update ", "delete", "create", "apply", "-x post", "-xpost", "-x put", "-x patch", " -d ", "--data", " --form", " -f @", "upload"}
)

// changingMethods are arguments of HTTP requests that change something.
var changingMethods = []string{`"post"`, `"put"`, `"patch"`, `"delete"`}

// transientWords are in errors that may go away without a change.
var transientWords = []string{
	"connection refused", "connection reset", "econnrefused", "econnreset", "etimedout", "unable to connect", "failed to connect", "no route to host", "unreachable",
	"could not resolve host", "unable to resolve host", "failure in name resolution", "timed out", "timeout", "temporarily", "unavailable", "too many requests", "rate limit",
	"ratelimit", "try again later", "retry after", "retry-after", "overloaded", "not ready", "is locked", "resource busy", "bad gateway",
}

// IsTransient reports whether an error may go away without a change: a server that is not up
// yet, a rate limit, a lock. An agent that repeats such a call after a pause waits for that.
func IsTransient(text []byte) bool {
	return containsAny(appendLower(nil, edgesOf(text)), transientWords)
}

// Acts reports whether a tool does more than read or search, by its name. A shell may do
// either.
func Acts(tool string) bool { return !isShell(tool) && !toolname.HasWord(tool, lookingWords) }

// looks reports whether a tool that is not a shell looks at something that others may
// change: an order, a row, a page, a log, but not a source file.
func looks(tool string, arguments []byte) bool {
	if !toolname.HasWord(tool, lookingWords) || toolname.HasWord(tool, changingWords) || containsAny(appendLower(nil, arguments[:min(len(arguments), maxCommand)]), changingMethods) {
		return false
	}
	return !hasName(arguments, fileNames) || containsAny(arguments, movingFiles)
}

// looksByCommand is looks for the command of a shell.
func looksByCommand(command []byte) bool {
	command = appendLower(nil, command[:min(len(command), maxCommand)])
	if changesAfterPipe(command) || containsAny(command, changingParts) {
		return false
	}
	found := false
	for _, part := range splitCommand(command) {
		part, _, _ = bytes.Cut(part, []byte("|"))
		words := bytes.Fields(bytes.TrimPrefix(bytes.TrimSpace(part), []byte("sudo ")))
		if len(words) == 0 {
			continue
		}
		if !looksAs(string(words[0]), part) {
			return false
		}
		found = true
	}
	return found
}

func looksAs(name string, command []byte) bool {
	switch {
	case slices.Contains(lookers, name):
		return true
	case slices.Contains(clients, name):
		return slices.ContainsFunc(clientWords, func(w string) bool { return hasWord(command, w) })
	}
	return slices.Contains(readers, name) && containsAny(command, movingFiles)
}
