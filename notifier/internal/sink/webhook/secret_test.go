package webhook

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDecodeSecretReturnsTheKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), minKey, maxKey).Draw(t, "key")
		got, err := DecodeSecret(secretPrefix + base64.StdEncoding.EncodeToString(key))
		if err != nil || !bytes.Equal(got, key) {
			t.Errorf("got %x, %v, want %x", got, err, key)
		}
	})
}

func TestDecodeSecretRefuses(t *testing.T) {
	t.Parallel()
	encode := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), n)) }
	tests := []struct {
		name, secret string
		want         error
	}{
		{"plain text", "s3cret s3cret s3cret s3cret", ErrSecretPrefix},
		{"base64 without prefix", encode(32), ErrSecretPrefix},
		{"nothing", "", ErrSecretPrefix},
		{"not base64", secretPrefix + "s3cret!", ErrSecretEncoding},
		{"too short", secretPrefix + encode(minKey-1), ErrSecretLength},
		{"too long", secretPrefix + encode(maxKey+1), ErrSecretLength},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := DecodeSecret(tt.secret)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}
