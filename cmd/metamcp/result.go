package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/metamcp/metamcp"
)

// content is one block of a tool's result, as far as people look at it.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"` // base64
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI      string `json:"uri"`
		MIMEType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     string `json:"blob"` // base64
	} `json:"resource"`
}

// printResult prints a result for people, or with raw the child's own bytes. A
// result without content blocks, or with one of a kind that is new, is printed
// raw too.
func printResult(w io.Writer, r *metamcp.Result, raw bool) error {
	var res struct {
		Content []content `json:"content"`
	}
	readable := json.Unmarshal(r.Raw, &res) == nil && len(res.Content) > 0
	lines := make([]string, len(res.Content))
	for i, c := range res.Content {
		var known bool
		lines[i], known = c.forPeople()
		readable = readable && known
	}
	if raw || !readable {
		_, err := fmt.Fprintln(w, string(r.Raw))
		return err
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// forPeople is what is printed of a block; false: its kind is not known.
func (c *content) forPeople() (string, bool) {
	switch c.Type {
	case "text":
		return c.Text, true
	case "image", "audio":
		return data(c.MIMEType, c.Type, c.Data), true
	case "resource_link":
		return "[" + strings.TrimSpace(c.Name+" "+c.URI) + "]", true
	case "resource":
		if c.Resource.Blob != "" {
			return data(c.Resource.MIMEType, c.Resource.URI, c.Resource.Blob), true
		}
		return c.Resource.Text, true
	}
	return "", false
}

// data is a line in place of bytes that no terminal can show.
func data(kind, otherwise, encoded string) string {
	if kind == "" {
		kind = otherwise
	}
	n := base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(encoded, "=")))
	return fmt.Sprintf("[%s, %s; --json shows it]", kind, size(int64(n)))
}
