package descriptor

import (
	"testing"

	"github.com/unloop/unloop/schemas/policy"
)

// FuzzToken reads whatever a client may send for a token: none of it verifies.
func FuzzToken(f *testing.F) {
	f.Add("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwib3JnIjp7ImlkIjo3fX0.")
	f.Add("eyJhbGciOiJIUzI1NiJ9.e30.AAAA")
	f.Add("..")
	config := &policy.JWT{Keys: []policy.JWTKey{{Algorithm: "HS256", SecretEnv: "S"}}}
	tokens := newTokens(config, func(string) string { return "a secret that nobody guesses, of 256 bits" }, nil)
	f.Fuzz(func(t *testing.T, token string) {
		c := tokens.read(token)
		if c.verified {
			t.Errorf("%q verifies", token)
		}
		for _, name := range []string{"sub", "org.id", ""} {
			_, _ = claimText(find(c.values, name))
		}
	})
}
