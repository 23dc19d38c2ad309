package metamcp

import "testing"

// The base of pages is what browsers call it: they leave out the port of the scheme,
// and a page compares names whole.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://mcp.example.com":       "https://mcp.example.com",
		"https://mcp.example.com/":      "https://mcp.example.com",
		"https://mcp.example.com:443/m": "https://mcp.example.com/m",
		"HTTPS://mcp.example.com:443":   "https://mcp.example.com",
		"https://mcp.example.com:80":    "https://mcp.example.com:80",
		"https://mcp.example.com:8443":  "https://mcp.example.com:8443",
		"https://[2001:db8::443]":       "https://[2001:db8::443]",
		"https://[2001:db8::1]:443":     "https://[2001:db8::1]",
		"http://localhost:80":           "http://localhost",
		"http://127.0.0.1:443":          "http://127.0.0.1:443",
		"http://mcp.example.com":        "",
		"https://":                      "",
		"https://me@mcp.example.com":    "",
	} {
		switch u, err := publicURL(text); {
		case want == "" && err == nil:
			t.Errorf("%s is taken", text)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%s is %v, %v; want %s", text, u, err, want)
		}
	}
}
