package natskit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// maxCredentials is the largest size of a file with credentials, in bytes.
const maxCredentials = 1 << 20

// unusable returns the error for a flag's file. It quotes nothing from the file.
func unusable(flag, file, why string) error {
	return fmt.Errorf("%w: %s %s: %s", ErrCredentials, flag, file, why)
}

// readFile reads a flag's file. The error says what is wrong with it.
func readFile(flag, file string) ([]byte, error) {
	f, err := os.Open(file)
	var data []byte
	if err == nil {
		defer func() { _ = f.Close() }()
		data, err = io.ReadAll(io.LimitReader(f, maxCredentials))
	}
	var cause *fs.PathError
	switch {
	case errors.As(err, &cause):
		return nil, unusable(flag, file, "can't be read: "+cause.Err.Error())
	case err != nil:
		return nil, unusable(flag, file, "can't be read")
	case len(strings.TrimSpace(string(data))) == 0:
		return nil, unusable(flag, file, "is empty")
	}
	return data, nil
}

// withCreds authenticates by a credentials file: a user's JWT and the seed of its key.
func withCreds(file string) (nats.Option, error) {
	if _, _, err := readCreds(file); err != nil {
		return nil, err
	}
	return nats.UserJWT(
		func() (string, error) {
			jwt, _, err := readCreds(file)
			return jwt, err
		},
		func(nonce []byte) ([]byte, error) {
			_, key, err := readCreds(file)
			if err != nil {
				return nil, err
			}
			defer key.Wipe()
			return key.Sign(nonce)
		}), nil
}

func readCreds(file string) (jwt string, key nkeys.KeyPair, err error) {
	const flag = "--nats-creds"
	data, err := readFile(flag, file)
	if err != nil {
		return "", nil, err
	}
	jwt, jwtErr := nkeys.ParseDecoratedJWT(data)
	key, keyErr := nkeys.ParseDecoratedUserNKey(data)
	if jwtErr != nil || keyErr != nil || strings.Count(jwt, ".") != 2 {
		return "", nil, unusable(flag, file, "is no credentials file: it must have a user's JWT and nkey seed, as nsc writes them")
	}
	return jwt, key, nil
}

// withNKey authenticates by an nkey. A connection of the client has a fixed public key: if
// the file gets another one, the connection is replaced.
func withNKey(file string) (nats.Option, error) {
	key, public, err := readNKey(file)
	if err != nil {
		return nil, err
	}
	key.Wipe()
	return nats.Nkey(public, func(nonce []byte) ([]byte, error) {
		key, now, err := readNKey(file)
		if err != nil {
			return nil, err
		}
		defer key.Wipe()
		if now != public {
			return nil, errNewKey
		}
		return key.Sign(nonce)
	}), nil
}

// errNewKey means that the connection must be replaced because the file has another key.
var errNewKey = errors.New("--nats-nkey has another key now")

func readNKey(file string) (key nkeys.KeyPair, public string, err error) {
	const flag = "--nats-nkey"
	data, err := readFile(flag, file)
	if err != nil {
		return nil, "", err
	}
	if key, err = nkeys.ParseDecoratedUserNKey(data); err == nil {
		public, err = key.PublicKey()
	}
	if err != nil {
		return nil, "", unusable(flag, file, "holds no nkey seed of a user, which begins with SU")
	}
	return key, public, nil
}

// withUser authenticates by a user name and a password. If a file can't be read again, it
// uses the last values.
func withUser(userFile, passwordFile string) (nats.Option, error) {
	user, password, err := readUser(userFile, passwordFile)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return nats.UserInfoHandler(func() (string, string) {
		mu.Lock()
		defer mu.Unlock()
		if u, p, err := readUser(userFile, passwordFile); err == nil {
			user, password = u, p
		}
		return user, password
	}), nil
}

func readUser(userFile, passwordFile string) (user, password string, err error) {
	user, err = readWord("--nats-user-file", userFile)
	password, also := readWord("--nats-password-file", passwordFile)
	return user, password, errors.Join(err, also)
}

// readWord reads a file of one line.
func readWord(flag, file string) (string, error) {
	data, err := readFile(flag, file)
	if err != nil {
		return "", err
	}
	word := strings.TrimRight(string(data), "\r\n")
	if strings.ContainsAny(word, "\r\n\x00") {
		return "", unusable(flag, file, "must have one line")
	}
	return word, nil
}

// withAuthorities trusts only the CA certificates in a file.
func withAuthorities(file string) (nats.Option, error) {
	read := func() (*x509.CertPool, error) {
		data, err := readFile("--nats-tls-ca", file)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, unusable("--nats-tls-ca", file, "holds no certificate in PEM form")
		}
		return pool, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	return nats.ClientTLSConfig(nil, read), nil
}

// withCertificate shows a certificate to servers.
func withCertificate(certFile, keyFile string) (nats.Option, error) {
	read := func() (tls.Certificate, error) {
		cert, err := readFile("--nats-tls-cert", certFile)
		key, also := readFile("--nats-tls-key", keyFile)
		if err := errors.Join(err, also); err != nil {
			return tls.Certificate{}, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return tls.Certificate{}, unusable("--nats-tls-cert", certFile, "and --nats-tls-key "+keyFile+" must be a certificate and its key in PEM form: "+strings.TrimPrefix(err.Error(), "tls: "))
		}
		return pair, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	return func(o *nats.Options) error {
		authorities := o.RootCAsCB // the option for both replaces both
		return nats.ClientTLSConfig(read, authorities)(o)
	}, nil
}
