// Package clients runs real agents into a loop, each as its users do, and sees what ends
// them: the libraries and programs of npm that docs/clients.md has in its table, whose rows
// the tests compare with what happens.
//
// The programs are large: `make clients` installs and runs them, and `make test` runs the
// libraries alone.
package clients
