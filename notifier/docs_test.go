package notifier

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/unloop/unloop/notifier/internal/endpoints"
)

// The example in the documentation is valid, and names every service.
func TestTheExampleOfTheDocumentationIsValid(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) == 0 {
		t.Fatal("there is no example")
	}
	secret := func(name string) string {
		switch lower := strings.ToLower(name); {
		case strings.Contains(lower, "secret") && strings.Contains(lower, "hook"):
			return "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
		case strings.Contains(lower, "url"):
			return "https://example.com/"
		default:
			return "secret"
		}
	}
	env := endpoints.Environment{Getenv: secret, ReadFile: func(name string) ([]byte, error) { return []byte(secret(name)), nil }}
	for _, example := range examples {
		built, err := endpoints.Load([]byte(example[1]), nil, env)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]bool{}
		for _, b := range built {
			kinds[b.Kind] = true
		}
		if len(kinds) != 7 {
			t.Errorf("the example has only %v", kinds)
		}
		endpoints.Close(built)
	}
}
