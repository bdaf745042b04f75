// Package clients runs real agents into a loop, as their users do, and observes what ends
// them: the npm libraries and programs in the table of docs/clients.md. Tests compare its
// rows with the observations.
//
// The programs are large: `make clients` installs and runs them; `make test` runs only the
// libraries.
package clients
