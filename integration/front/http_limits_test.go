package front

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Who proves nothing gets nowhere, and nobody gets at the session of another.
func TestHTTPPrincipals(t *testing.T) {
	var removed atomic.Bool
	authorize := func(r *http.Request) (Principal, error) {
		name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || name == "c" || name == "b" && removed.Load() {
			return Principal{}, errors.New("who are you")
		}
		return Principal{Key: name, Name: name}, nil
	}
	f := startHTTP(t, HTTPOptions{Authorize: authorize, KeepAlive: 10 * time.Millisecond})
	a, b := headers{"Authorization": "Bearer a"}, headers{"Authorization": "Bearer b"}
	for _, c := range []struct {
		hs     headers
		challe string
	}{{nil, `Bearer realm="metamcp"`}, {headers{"Authorization": "Bearer c"}, `Bearer realm="metamcp", error="invalid_token"`}} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			body := ""
			if method == "POST" {
				body = initLine("2025-11-25")
			}
			r := f.do(method, body, c.hs)
			if r.StatusCode != http.StatusUnauthorized || r.Header.Get("Www-Authenticate") != c.challe {
				t.Errorf("%s %v: %d, %q", method, c.hs, r.StatusCode, r.Header.Get("Www-Authenticate"))
			}
		}
	}
	own := f.open(a)
	stolen := headers{"Authorization": "Bearer b", "Mcp-Session-Id": own["Mcp-Session-Id"]}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		body := ""
		if method == "POST" {
			body = callLine(1, someCall)
		}
		if r := f.do(method, body, stolen); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s with a stolen session: %d, %s", method, r.StatusCode, r.body)
		}
	}
	if r := f.post(callLine(1, someCall), own); r.StatusCode != http.StatusOK {
		t.Errorf("the owner: %d, %s", r.StatusCode, r.body)
	}
	// Modern clients of two principals share nothing.
	for _, who := range []headers{a, b} {
		hs := modernHeaders("tools/call", "mcp_call")
		hs["Authorization"] = who["Authorization"]
		if r := f.post(modernCall(1, someCall, ""), hs); r.StatusCode != http.StatusOK {
			t.Errorf("%d, %s", r.StatusCode, r.body)
		}
	}
	if len(f.h.scopes) != 2 {
		t.Errorf("%d sessions of modern clients", len(f.h.scopes))
	}
	// Who must not any more loses the streams that are open.
	st := f.stream("GET", "", f.open(b))
	removed.Store(true)
	st.ends()
}

// Who must not any more while its request runs is told so where nothing was said yet:
// a success without an answer would be none.
func TestHTTPLetInNoMore(t *testing.T) {
	for _, modern := range []bool{false, true} {
		var removed atomic.Bool
		authorize := func(*http.Request) (Principal, error) {
			if removed.Load() {
				return Principal{}, errors.New("who are you")
			}
			return Principal{Key: "a"}, nil
		}
		f := startHTTP(t, HTTPOptions{Authorize: authorize, KeepAlive: 10 * time.Millisecond})
		calls := hold(f)
		var hs headers
		body := callLine(1, someCall)
		if modern {
			hs, body = modernHeaders("tools/call", "mcp_call"), modernCall(1, someCall, "")
		} else {
			hs = f.open()
		}
		hs["Accept"], hs["Authorization"] = "application/json", "Bearer a"
		got := make(chan *reply, 1)
		go func() {
			r, err := f.try("POST", body, hs)
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		call := calls.next(t)
		removed.Store(true)
		if r := <-got; r != nil && (r.StatusCode != http.StatusInternalServerError || !strings.Contains(r.body, "who are you; the request was let in")) {
			t.Errorf("modern %v: %d, %v, %q", modern, r.StatusCode, r.Header, r.body)
		}
		answer(call)
	}
}

// More than a client may send is refused, and says when to come back.
func TestHTTPRate(t *testing.T) {
	f := startHTTP(t, HTTPOptions{MaxRate: 5})
	hs := f.open()
	refused := 0
	for i := range 30 {
		r := f.post(callLine(i, someCall), hs)
		switch r.StatusCode {
		case http.StatusOK:
		case http.StatusTooManyRequests:
			refused++
			if wait, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || wait < 1 {
				t.Errorf("Retry-After %q", r.Header.Get("Retry-After"))
			}
		default:
			t.Fatalf("%d, %s", r.StatusCode, r.body)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	if r := f.post(callLine(1, someCall), f.open()); r.StatusCode != http.StatusOK {
		t.Errorf("another client: %d, %s", r.StatusCode, r.body)
	}
}

// So is more than it may have open at once.
func TestHTTPConcurrency(t *testing.T) {
	const most = 3
	f := startHTTP(t, HTTPOptions{MaxEach: most})
	calls := hold(f)
	hs := f.open()
	var wg sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	for i := range most {
		wg.Go(func() {
			if res, err := f.client.Do(f.request(ctx, "POST", callLine(i, someCall), hs)); err == nil {
				_ = res.Body.Close()
			}
		})
	}
	var all []Request
	for range most {
		all = append(all, calls.next(t))
	}
	refused := func() {
		t.Helper()
		if r := f.post(callLine(99, someCall), hs); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
			t.Errorf("one more: %d, %s", r.StatusCode, r.body)
		}
	}
	refused()
	// A client that leaves its calls behind has them all the same.
	leave()
	wg.Wait()
	refused()
	if r := f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`, hs); r.StatusCode != http.StatusAccepted {
		t.Errorf("a cancellation: %d, %s", r.StatusCode, r.body)
	}
	for _, r := range all {
		answer(r)
	}
	f.engine.call = nil
	eventually(t, "a place", func() bool { return f.post(callLine(99, someCall), hs).StatusCode == http.StatusOK })
}

// Sessions are bounded; an idle one makes room for a new one, and one that is
// used does not.
func TestHTTPSessionsAreBounded(t *testing.T) {
	f := startHTTP(t, HTTPOptions{MaxSessionsEach: 3, MaxSessions: 100})
	var all []headers
	for range 3 {
		all = append(all, f.open())
	}
	if r := f.post(initLine("2025-11-25"), nil); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Fatalf("one more: %d, %s", r.StatusCode, r.body)
	}
	st := f.stream("GET", "", all[0])
	for _, s := range f.h.sessions {
		s.mu.Lock()
		s.used = s.used.Add(-2 * evictable)
		s.mu.Unlock()
	}
	f.open()
	gone := 0
	for _, hs := range all[1:] {
		if r := f.post(callLine(1, someCall), hs); r.StatusCode == http.StatusNotFound {
			gone++
		}
	}
	if gone != 1 || f.h.Sessions() != 3 || f.endedSessions() != 1 {
		t.Errorf("%d sessions made room, %d are left, %d ended", gone, f.h.Sessions(), f.endedSessions())
	}
	st.cancel()
}

// A session of which nothing is open ends after a while; one with a stream does
// not.
func TestHTTPIdleSessionsEnd(t *testing.T) {
	f := startHTTP(t, HTTPOptions{IdleTimeout: 500 * time.Millisecond})
	live := f.open()
	st := f.stream("GET", "", live)
	f.open()
	f.post(modernCall(1, someCall, ""), modernHeaders("tools/call", "mcp_call"))
	eventually(t, "the end of idle sessions", func() bool { return f.h.Sessions() == 1 })
	if err := f.peer(0).Notify("notifications/message", nil); err != nil {
		t.Fatal(err)
	}
	st.want("notifications/message")
	st.cancel()
	eventually(t, "the end of the last one", func() bool { return f.h.Sessions() == 0 && f.endedSessions() == 3 })
	if r := f.post(callLine(1, someCall), live); r.StatusCode != http.StatusNotFound {
		t.Errorf("%d, %s", r.StatusCode, r.body)
	}
}

// Clients that send slowly, or read nothing, hold up nobody and are let go.
func TestHTTPSlowClients(t *testing.T) {
	f := startHTTPWithin(t, HTTPOptions{Patience: 300 * time.Millisecond}, time.Second)
	hs := f.open()
	addr := strings.TrimSuffix(strings.TrimPrefix(f.l.URL(), "http://"), Endpoint)
	dial := func(text string) net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	head := "POST /mcp HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\n"
	var slow []net.Conn
	for range 50 {
		slow = append(slow, dial(head), dial(head+"Content-Length: 100\r\n\r\n{"), dial(head+"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"))
	}
	if r := f.post(callLine(1, someCall), hs); r.StatusCode != http.StatusOK {
		t.Errorf("a quick client: %d, %s", r.StatusCode, r.body)
	}
	for _, c := range slow {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, net.ErrClosed) && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("a slow client is still there: %v", err)
		}
	}
	// An answer of 64 MB that nobody reads.
	f.engine.call = func(r Request) {
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), 64<<20)...), `"}`...)})
	}
	body := callLine(1, someCall)
	deaf := dial(head + "Mcp-Session-Id: " + hs["Mcp-Session-Id"] + "\r\nAccept: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	var s *httpSession
	for _, s = range f.h.sessions {
	}
	busy := func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.busy }
	eventually(t, "the request", func() bool { return busy() > 0 })
	eventually(t, "the end of the response", func() bool { return busy() == 0 })
	_ = deaf.Close()
}

// Nothing that is sent ends the server, or costs another client anything.
func TestHTTPTenThousandRequests(t *testing.T) {
	f := startHTTP(t, HTTPOptions{MaxRate: 100, MaxSessionsEach: 50})
	hs := f.open()
	var wg sync.WaitGroup
	var seen [600]atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for i := range 1250 {
				body, h := callLine(i, someCall), hs
				switch i % 5 {
				case 1:
					h = headers{"Mcp-Session-Id": strconv.Itoa(i)}
				case 2:
					body, h = initLine("2025-11-25"), nil
				case 3:
					body = strings.Repeat("[", i)
				case 4:
					body, h = modernCall(w, someCall, ""), modernHeaders("tools/call", "mcp_call")
				}
				r, err := f.try("POST", body, h)
				if err != nil {
					t.Error(err)
					return
				}
				seen[r.StatusCode].Add(1)
			}
		})
	}
	wg.Wait()
	for status := range seen {
		if n := seen[status].Load(); n > 0 {
			t.Logf("%d: %d", status, n)
			if status >= 500 {
				t.Errorf("%d answers with %d", n, status)
			}
		}
	}
	if seen[http.StatusOK].Load() == 0 || seen[http.StatusTooManyRequests].Load() == 0 || seen[http.StatusNotFound].Load() == 0 || seen[http.StatusBadRequest].Load() == 0 {
		t.Error("a kind of answer is missing")
	}
	eventually(t, "a place for the rate", func() bool {
		return f.post(callLine(1, someCall), hs).StatusCode == http.StatusOK
	})
}

// loadVariable makes the test with many clients one with 500.
const loadVariable = "METAMCP_TEST_HTTP_CLIENTS"

// Many clients at once: every answer comes, and to the one who asked.
func TestHTTPManyClients(t *testing.T) {
	clients := 50
	if n, err := strconv.Atoi(os.Getenv(loadVariable)); err == nil {
		clients = n
	}
	const each = 20
	f := startHTTP(t, HTTPOptions{})
	f.engine.call = func(r Request) {
		go func() {
			if r.Progress != nil {
				r.Progress.Progress(r.Call, []byte(`{"progress":1}`))
			}
			answer(r)
		}()
	}
	began := time.Now()
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			if c%2 == 1 {
				for i := range each {
					r, err := f.try("POST", modernCall(i, fmt.Sprintf(`{"server":"s","tool":"t","args":{"c":%d,"i":%d}}`, c, i), ""), modernHeaders("tools/call", "mcp_call"))
					if err != nil || r.StatusCode != http.StatusOK && r.StatusCode != http.StatusTooManyRequests || r.StatusCode == http.StatusOK && !strings.Contains(r.body, fmt.Sprintf(`{"c":%d,"i":%d}`, c, i)) {
						t.Errorf("client %d: %v, %+v", c, err, r)
						return
					}
				}
				return
			}
			hs := f.open()
			for i := range each {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"s","tool":"t","args":{"c":%d,"i":%d}},"_meta":{"progressToken":%d}}}`, i, c, i, i)
				r, err := f.try("POST", body, hs)
				if err != nil || !strings.Contains(r.body, fmt.Sprintf(`"progressToken":%d`, i)) || !strings.Contains(r.body, fmt.Sprintf(`{"c":%d,"i":%d}`, c, i)) {
					t.Errorf("client %d: %v, %+v", c, err, r)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d clients with %d calls each: %v", clients, each, time.Since(began))
}

func TestCheckHTTPAddr(t *testing.T) {
	for _, c := range []struct {
		addr, want string
		loopback   bool
	}{
		{":8090", "127.0.0.1:8090", true}, {"localhost:1", "127.0.0.1:1", true}, {"[::1]:0", "[::1]:0", true}, {"127.5.5.5:1", "127.5.5.5:1", true},
		{"0.0.0.0:8090", "0.0.0.0:8090", false}, {"10.1.2.3:8090", "10.1.2.3:8090", false}, {"[::]:1", "[::]:1", false},
		{"8090", "", false}, {":99999", "", false}, {"example.com:80", "", false}, {"", "", false}, {":x", "", false},
	} {
		got, loopback, err := CheckHTTPAddr(c.addr)
		if got != c.want || loopback != c.loopback || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v, %v", c.addr, got, loopback, err)
		}
	}
}

// Other machines are let in only where clients prove something.
func TestHTTPListensBeyondLoopbackOnlyWithProof(t *testing.T) {
	f := startHTTP(t, HTTPOptions{})
	if _, err := f.h.Listen(t.Context(), ListenOptions{Addr: "0.0.0.0:0"}); err == nil || !strings.Contains(err.Error(), "metamcp token add") {
		t.Errorf("without proof: %v", err)
	}
	for _, o := range []ListenOptions{
		{Addr: ":0", TLSCert: "x"}, {Addr: ":0", ClientCA: "x"}, {Addr: ":0", TLSCert: "/nowhere", TLSKey: "/nowhere"}, {Addr: strings.TrimPrefix(strings.TrimSuffix(f.l.URL(), Endpoint), "http://")},
	} {
		if _, err := f.h.Listen(t.Context(), o); err == nil {
			t.Errorf("%+v: it listens", o)
		}
	}
	h := NewHTTP(HTTPOptions{MCP: newMCP(nil)})
	l, err := h.Listen(t.Context(), ListenOptions{Addr: "0.0.0.0:0", Proven: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// certificate makes a certificate, signed by parent or itself, and its PEM files.
func certificate(t *testing.T, name string, parent *tls.Certificate) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, signerKey := own, any(key)
	if parent != nil {
		signer, signerKey = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, own, signer, &key.PublicKey, signerKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(os.WriteFile(certFile, certPEM, 0o600), os.WriteFile(keyFile, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	return pair, certFile, keyFile
}

// HTTPS with certificates of clients: those of the authority get in, all others
// do not; streams work over HTTP/2 as well.
func TestHTTPSWithClientCertificates(t *testing.T) {
	ca, caFile, _ := certificate(t, "authority", nil)
	_, serverCert, serverKey := certificate(t, "server", &ca)
	good, _, _ := certificate(t, "good", &ca)
	bad, _, _ := certificate(t, "bad", nil)
	engine := &fakeEngine{call: func(r Request) {
		go func() {
			r.Progress.Progress(r.Call, []byte(`{"progress":1}`))
			answer(r)
		}()
	}}
	h := NewHTTP(HTTPOptions{MCP: newMCP(nil), LoopbackOnly: true, Open: func(Principal) (Opened, error) {
		return Opened{Session: NextSession(), Engine: engine, Ready: func(*Peer) {}, Close: func() {}}, nil
	}})
	l, err := h.Listen(t.Context(), ListenOptions{Addr: ":0", TLSCert: serverCert, TLSKey: serverKey, ClientCA: caFile})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	client := func(certs ...tls.Certificate) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: patience}
	}
	f := &httpFront{t: t, h: h, l: l, engine: engine, client: client(good)}
	hs := f.open()
	st := f.stream("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":`+someCall+`,"_meta":{"progressToken":1}}}`, hs)
	if st.res.ProtoMajor != 2 {
		t.Errorf("it is %s", st.res.Proto)
	}
	st.want(`"progress":1`)
	st.want(`"id":1,"result"`)
	st.ends()
	for name, c := range map[string]*http.Client{"none": client(), "another authority's": client(bad)} {
		f.client = c
		if r, err := f.try("POST", initLine("2025-11-25"), nil); err == nil {
			t.Errorf("a client with certificate %s got in: %d", name, r.StatusCode)
		}
	}
	old := client(good)
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS11
	old.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS10
	f.client = old
	if _, err := f.try("POST", initLine("2025-11-25"), nil); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// What an idle session costs: its memory, in bytes per session.
func BenchmarkIdleSessionHTTP(b *testing.B) {
	for _, streams := range []bool{false, true} {
		name := "session"
		if streams {
			name = "session+stream"
		}
		b.Run(name, func(b *testing.B) {
			const n = 500
			for range b.N {
				f := startHTTP(b, HTTPOptions{})
				f.open()
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				open := make([]*bufio.Reader, 0, n)
				addr := strings.TrimSuffix(strings.TrimPrefix(f.l.URL(), "http://"), Endpoint)
				for range n {
					hs := f.open()
					if !streams {
						continue
					}
					// A client of as little memory as can be: it is in this process, too.
					c, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() { _ = c.Close() })
					if _, err := fmt.Fprintf(c, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", hs["Mcp-Session-Id"]); err != nil {
						b.Fatal(err)
					}
					r := bufio.NewReaderSize(c, 16)
					if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
						b.Fatal(line, err)
					}
					open = append(open, r)
				}
				f.client.CloseIdleConnections()
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/n, "B/session")
				runtime.KeepAlive(open)
				if err := f.l.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
