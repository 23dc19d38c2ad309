package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"
)

var (
	formToken = regexp.MustCompile(`name="csrf" value="([^"]+)"`)
	formField = regexp.MustCompile(`name="(v[0-9]+)"`)
)

// AnswerPage does on a page that asks for values what a person in a browser does:
// it enters the value of each field, v0, v1 and so on; values nil declines. host is
// the page's name and port where these are not those of the address; else "". It
// returns the page as it was before.
func AnswerPage(ctx context.Context, address, host string, values func(field string) string) (page string, err error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	browser := &http.Client{Jar: jar, Timeout: time.Minute}
	load := func(method, body string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		if host != "" {
			req.Host = host
		}
		if method == http.MethodPost {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", req.URL.Scheme+"://"+req.Host)
		}
		resp, err := browser.Do(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s: %s", method, resp.Status, text)
		}
		return string(text), err
	}
	if page, err = load(http.MethodGet, ""); err != nil {
		return "", err
	}
	token := formToken.FindStringSubmatch(page)
	if token == nil {
		return page, errors.New("the page has no form")
	}
	form := url.Values{"csrf": {token[1]}, "do": {"decline"}}
	if values != nil {
		form.Set("do", "keep")
		for _, name := range formField.FindAllStringSubmatch(page, -1) {
			form.Set(name[1], values(name[1]))
		}
	}
	_, err = load(http.MethodPost, form.Encode())
	return page, err
}
