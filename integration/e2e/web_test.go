package e2e_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

var pageLink = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/\?token=\S+`)

// startWithPage starts a host with --web and returns what link it prints.
func startWithPage(t *testing.T, addr string) (host *testkit.Process, link string) {
	t.Helper()
	host = testkit.StartHost(t, testkit.Host{Args: []string{"--web", addr}})
	testkit.Eventually(t, time.Minute, func() error {
		if link = pageLink.FindString(host.Stderr.String()); link == "" {
			return errors.New("no link in: " + host.Stderr.String())
		}
		return nil
	})
	return host, link
}

func TestServeWeb(t *testing.T) {
	host, link := startWithPage(t, "127.0.0.1:0")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Jar: jar, Timeout: time.Minute}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	if closeErr := answer.Body.Close(); err != nil || closeErr != nil {
		t.Fatal(err, closeErr)
	}
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(page), "<title>metamcp</title>") {
		t.Errorf("the page is answered with %s: %.200s", answer.Status, page)
	}

	// A second host that wants the same port does without.
	addr, _, _ := strings.Cut(strings.TrimPrefix(link, "http://"), "/")
	second := testkit.StartHost(t, testkit.Host{Args: []string{"--web", addr}})
	testkit.Eventually(t, time.Minute, func() error {
		if text := second.Stderr.String(); !strings.Contains(text, addr+" is taken") {
			return errors.New(text)
		}
		return nil
	})
	second.Lines(t).Handshake()
	for _, p := range []*testkit.Process{host, second} {
		p.CloseStdin()
		if code := p.Wait(t, time.Minute); code != 0 {
			t.Errorf("the host ended with %d", code)
		}
	}
}

func TestServeWebRefusesOtherMachines(t *testing.T) {
	host := testkit.StartHost(t, testkit.Host{Args: []string{"--web", "0.0.0.0:7777"}})
	if code := host.Wait(t, time.Minute); code != 2 || !strings.Contains(host.Stderr.String(), "no loopback address") {
		t.Errorf("it ended with %d: %s", code, host.Stderr)
	}
}
