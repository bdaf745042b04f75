package natskit

import (
	"errors"
	"net/url"
)

// errURL replaces an error whose text quotes a URL, which may have a secret in it.
var errURL = errors.New("the URL can't be read; it must look like nats://host:4222, with characters such as / and @ in credentials percent-encoded")

// withoutURL returns err, or errURL if err quotes a URL.
func withoutURL(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return errURL
	}
	return err
}
