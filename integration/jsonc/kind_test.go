package jsonc

import (
	"testing"

	"github.com/tailscale/hujson"
)

func TestKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}": "an object", "[]": "an array", `"x"`: "a string", "-1.5": "a number", "true": "a boolean", "false": "a boolean", "null": "null",
	} {
		v, err := hujson.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := Kind(&v); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
