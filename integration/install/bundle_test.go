package install

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
)

// zipped is an archive of files by name and text; a change may alter each
// header.
func zipped(t testing.TB, files map[string]string, change func(*zip.FileHeader)) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o644)
		if change != nil {
			change(h)
		}
		w, err := z.CreateHeader(h)
		must(t, err)
		_, err = w.Write([]byte(files[name]))
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

func unzipBytes(t *testing.T, archive []byte, most int64) (string, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "x.zip")
	must(t, os.WriteFile(file, archive, 0o600))
	into := filepath.Join(dir, "into")
	must(t, os.Mkdir(into, 0o700))
	return into, unzip(t.Context(), file, into, most)
}

func TestUnzip(t *testing.T) {
	files := map[string]string{"a.js": "one", "deep/er/b.txt": "two", "run": "three"}
	into, err := unzipBytes(t, zipped(t, files, func(h *zip.FileHeader) {
		if h.Name == "run" {
			h.SetMode(0o755)
		}
	}), 1<<20)
	must(t, err)
	for name, text := range files {
		got, err := os.ReadFile(filepath.Join(into, filepath.FromSlash(name)))
		if err != nil || string(got) != text {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(into, "run")); err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o700 {
		t.Errorf("the program is %v, %v", info, err)
	}
}

// smaller makes an archive say that its only file is of that size.
func smaller(archive []byte, size uint32) []byte {
	b := bytes.Clone(archive)
	central := bytes.LastIndex(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(b[central+24:], size)
	return b
}

func TestHostileArchives(t *testing.T) {
	large := strings.Repeat("\x00", 3<<20)
	names := func(list ...string) []byte {
		files := map[string]string{}
		for _, n := range list {
			files[n] = "evil"
		}
		return zipped(t, files, nil)
	}
	mode := func(m fs.FileMode) []byte {
		return zipped(t, map[string]string{"link": "../../outside"}, func(h *zip.FileHeader) { h.SetMode(m) })
	}
	many := map[string]string{}
	for i := range maxZipFiles + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, archive := range map[string][]byte{
		"no archive":                 []byte("PK hello"),
		"nothing":                    {},
		"half":                       names("a", "b")[:60],
		"a path that climbs":         names("../outside"),
		"one that climbs later":      names("a/../../outside"),
		"one that climbs and stays":  names("a/../b"),
		"an absolute path":           names("/outside"),
		"a path of Windows":          names(`..\outside`),
		"a drive of Windows":         names(`C:outside`),
		"a control character":        names("a\nb"),
		"a long name":                names(strings.Repeat("a", maxZipPath+1)),
		"a deep path":                names(strings.Repeat("a/", maxZipDepth+1) + "a"),
		"names that differ in case":  names("Readme", "readme"),
		"a file that is a folder":    names("a", "a/b"),
		"a link":                     mode(fs.ModeSymlink | 0o777),
		"a device":                   mode(fs.ModeDevice | 0o666),
		"a pipe":                     mode(fs.ModeNamedPipe | 0o666),
		"too much in one file":       zipped(t, map[string]string{"large": large}, nil),
		"too much in many files":     zipped(t, map[string]string{"1": large[:1<<20], "2": large[:1<<20], "3": large[:1<<20]}, nil),
		"more than it says":          smaller(zipped(t, map[string]string{"large": large}, nil), 10),
		"less than it says":          smaller(zipped(t, map[string]string{"small": "x"}, nil), 1000),
		"too many files":             zipped(t, many, func(h *zip.FileHeader) { h.Method = zip.Store }),
		"a wrong checksum":           bytes.Replace(zipped(t, map[string]string{"a": "text"}, func(h *zip.FileHeader) { h.Method = zip.Store }), []byte("text"), []byte("tExt"), 1),
		"a method that is not known": names("a"),
	} {
		if name == "a method that is not known" {
			archive[bytes.LastIndex(archive, []byte("PK\x01\x02"))+10] = 99
		}
		t.Run(name, func(t *testing.T) {
			into, err := unzipBytes(t, archive, 2<<20)
			reason(t, err, BadBundle)
			if _, err := os.Stat(filepath.Join(filepath.Dir(into), "outside")); err == nil {
				t.Error("it wrote outside of its folder")
			}
			var size int64
			must(t, filepath.WalkDir(into, func(_ string, d fs.DirEntry, err error) error {
				if info, infoErr := d.Info(); infoErr == nil && info.Mode().IsRegular() {
					size += info.Size()
				}
				return err
			}))
			if size > 2<<20+1 {
				t.Errorf("it wrote %d bytes", size)
			}
		})
	}
}

// bundle is one with a manifest and a program.
func bundle(t *testing.T, manifest string) []byte {
	t.Helper()
	return zipped(t, map[string]string{"manifest.json": manifest, "server/index.js": "// nothing", "bin/run": "#!/bin/sh\n"}, nil)
}

// shop serves bundles over TLS.
type shop struct {
	*httptest.Server
	bundle []byte
}

func openShop(t *testing.T, archive []byte) *shop {
	t.Helper()
	s := &shop{bundle: archive}
	mux := http.NewServeMux()
	mux.HandleFunc("/b.mcpb", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.bundle) })
	mux.Handle("/moved", http.RedirectHandler("/b.mcpb", http.StatusFound))
	mux.Handle("/plain", http.RedirectHandler("http://example.com/b.mcpb", http.StatusFound))
	mux.Handle("/round", http.RedirectHandler("/round", http.StatusFound))
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(s.bundle)+10))
		_, _ = w.Write(s.bundle)
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	s.Server = httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) pkg(path string) registry.Package {
	sum := sha256.Sum256(s.bundle)
	return registry.Package{Kind: registry.MCPB, Identifier: s.URL + path, Version: "1.0.0", SHA256: hex.EncodeToString(sum[:])}
}

const fullManifest = `{
	"manifest_version": "0.3", "name": "x", "version": "1.0.0",
	"server": {"type": "node", "entry_point": "server/index.js", "mcp_config": {
		"command": "node",
		"args": ["${__dirname}/server/index.js", "--home=${HOME}", "${user_config.folders}", "${user_config.unset}", "--plain=${OTHER}", "--level=${user_config.level}"],
		"env": {"KEY": "${user_config.api_key}", "UNSET": "${user_config.unset}", "FIXED": "yes"},
		"platform_overrides": {"linux": {"env": {"OS": "linux"}}, "darwin": {"env": {"OS": "linux"}}, "win32": {"env": {"OS": "linux"}}}
	}},
	"user_config": {
		"api_key": {"type": "string", "title": "API key", "description": "The key", "required": true, "sensitive": true},
		"folders": {"type": "directory", "multiple": true, "required": true, "default": ["${HOME}/a", "${HOME}/b"]},
		"level": {"type": "number", "default": 3},
		"unset": {"type": "string"}
	}
}`

func TestInstallsABundle(t *testing.T) {
	s := openShop(t, bundle(t, fullManifest))
	state := t.TempDir()
	opts := Options{StateDir: state, network: localNetwork(s)}

	// The key is missing, and the bundle alone can say so.
	_, err := planned(t, opts, s.pkg("/b.mcpb")).Install(t.Context())
	if e := reason(t, err, Missing); len(e.Needs) != 1 || e.Needs[0].Name != "api_key" || !e.Needs[0].Secret || !strings.Contains(e.Message, "The key") {
		t.Errorf("missing: %+v", e)
	}
	nothingLeft(t, state)
	opts.Values = map[string]string{"api_key": "sk-plain"}
	_, err = planned(t, opts, s.pkg("/b.mcpb")).Install(t.Context())
	if e := reason(t, err, Invalid); strings.Contains(e.Error(), "sk-plain") {
		t.Errorf("the secret is in %v", e)
	}
	opts.Values = map[string]string{"api_key": "${MY_KEY}", "apikey": "x"}
	_, err = planned(t, opts, s.pkg("/b.mcpb")).Install(t.Context())
	reason(t, err, Invalid)
	nothingLeft(t, state)

	opts.Values = map[string]string{"api_key": "${MY_KEY}"}
	done, err := planned(t, opts, s.pkg("/moved")).Install(t.Context())
	must(t, err)
	kept, _, err := done.Keep(t.Context(), "x", nil, provisioned.APerson, "")
	must(t, err)
	done.Release()
	l := provisioned.Open(state)
	must(t, l.Verify(t.Context(), kept))
	home := "${HOME}"
	if os.PathSeparator == '\\' {
		home = "${USERPROFILE}"
	}
	want := Entry{
		Command: "node",
		Args:    []string{l.Dir(kept) + "/bundle/server/index.js", "--home=" + home, home + "/a", home + "/b", "--plain=$${OTHER}", "--level=3"},
		Env:     map[string]string{"KEY": "${MY_KEY}", "FIXED": "yes", "OS": "linux"},
	}
	if os.PathSeparator == '/' && mustJSON(t, kept.Entry) != mustJSON(t, want) {
		t.Errorf("the entry is\n%s and not\n%s", mustJSON(t, kept.Entry), mustJSON(t, want))
	}
	if len(kept.Needs) != 4 || kept.Source.Integrity != "sha256-"+s.pkg("/").SHA256 {
		t.Errorf("kept %+v", kept)
	}
	if text, err := os.ReadFile(l.Path()); err != nil || strings.Contains(string(text), "sk-plain") {
		t.Errorf("the lock file: %v", err)
	}
}

func TestBundlesThatAreRefused(t *testing.T) {
	good := bundle(t, fullManifest)
	for _, c := range []struct {
		name, path string
		reason     Reason
		change     func(*registry.Package, *Options)
	}{
		{"another hash", "/b.mcpb", BadIntegrity, func(p *registry.Package, _ *Options) { p.SHA256 = strings.Repeat("0", 64) }},
		{"no hash", "/b.mcpb", Invalid, func(p *registry.Package, _ *Options) { p.SHA256 = "" }},
		{"too large", "/b.mcpb", BadBundle, func(_ *registry.Package, o *Options) { o.MaxBundle = int64(len(good)) - 1 }},
		{"too large inside", "/b.mcpb", BadBundle, func(_ *registry.Package, o *Options) { o.MaxUnpacked = 10 }},
		{"a redirect to http", "/plain", Failed, nil},
		{"redirects without end", "/round", Failed, nil},
		{"nothing there", "/gone", NotFound, nil},
		{"a server that fails", "/broken", Failed, nil},
		{"a download that breaks off", "/short", Failed, nil},
		{"a download that hangs", "/slow", TimedOut, func(_ *registry.Package, o *Options) { o.Timeout = 300e6 }},
		{"http", "/b.mcpb", Invalid, func(p *registry.Package, _ *Options) {
			p.Identifier = "http" + strings.TrimPrefix(p.Identifier, "https")
		}},
		{"an address of this machine", "/b.mcpb", Invalid, func(_ *registry.Package, o *Options) { o.network.Allow = publicNetwork().Allow }},
		{"a name of this machine", "/b.mcpb", Failed, func(p *registry.Package, o *Options) {
			o.network.Allow = publicNetwork().Allow
			p.Identifier = strings.Replace(p.Identifier, "127.0.0.1", "localhost", 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openShop(t, good)
			state := t.TempDir()
			opts := Options{StateDir: state, network: localNetwork(s), Values: map[string]string{"api_key": "${K}"}}
			pkg := s.pkg(c.path)
			if c.change != nil {
				c.change(&pkg, &opts)
			}
			p, err := resolve(t, opts, pkg)
			if err == nil {
				_, err = p.Install(t.Context())
			}
			reason(t, err, c.reason)
			nothingLeft(t, state)
		})
	}
}

func TestADownloadCanBeCancelled(t *testing.T) {
	s := openShop(t, bundle(t, fullManifest))
	state := t.TempDir()
	p := planned(t, Options{StateDir: state, network: localNetwork(s)}, s.pkg("/slow"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Install(ctx)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	nothingLeft(t, state)
}

func TestManifestsThatAreRefused(t *testing.T) {
	with := func(server string) string { return `{"name": "x", "server": ` + server + `}` }
	for name, m := range map[string]string{
		"no JSON":                   "{",
		"a list":                    "[]",
		"nothing":                   "{}",
		"a type that is not known":  with(`{"type": "java", "entry_point": "x"}`),
		"a program outside":         with(`{"mcp_config": {"command": "${__dirname}/../evil"}}`),
		"a program elsewhere":       with(`{"mcp_config": {"command": "/bin/sh"}}`),
		"a program that is missing": with(`{"mcp_config": {"command": "${__dirname}/bin/none"}}`),
		"an entry point outside":    with(`{"type": "binary", "entry_point": "../../x"}`),
		"a line feed":               with(`{"mcp_config": {"command": "node", "args": ["a\nb"]}}`),
		"a variable with =":         with(`{"mcp_config": {"command": "node", "env": {"A=B": "x"}}}`),
		"another platform":          `{"server": {"mcp_config": {"command": "node"}}, "compatibility": {"platforms": ["amiga"]}}`,
		"an option with a bracket":  `{"server": {"mcp_config": {"command": "node"}}, "user_config": {"a}": {}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, bundle(t, m))
			state := t.TempDir()
			_, err := planned(t, Options{StateDir: state, network: localNetwork(s)}, s.pkg("/b.mcpb")).Install(t.Context())
			reason(t, err, BadBundle)
			nothingLeft(t, state)
		})
	}
	s := openShop(t, zipped(t, map[string]string{"x": ""}, nil))
	_, err := planned(t, Options{StateDir: t.TempDir(), network: localNetwork(s)}, s.pkg("/b.mcpb")).Install(t.Context())
	reason(t, err, BadBundle)
}

func TestABundleWithAProgram(t *testing.T) {
	s := openShop(t, bundle(t, `{"server": {"type": "binary", "entry_point": "bin/run"}}`))
	state := t.TempDir()
	done, err := planned(t, Options{StateDir: state, network: localNetwork(s)}, s.pkg("/b.mcpb")).Install(t.Context())
	must(t, err)
	if info, err := os.Stat(done.Entry.Command); err != nil || info.Mode()&0o100 == 0 && os.PathSeparator == '/' {
		t.Errorf("%s is %v, %v", done.Entry.Command, info, err)
	}
	must(t, done.Discard())
	nothingLeft(t, state)
}

// TestCompressedMuch: a thousandfold compression stops at the bound, not at the
// end of the data.
func TestCompressedMuch(t *testing.T) {
	var packed bytes.Buffer
	f, err := flate.NewWriter(&packed, flate.BestSpeed)
	must(t, err)
	for range 16 {
		_, err = f.Write(make([]byte, 1<<20))
		must(t, err)
	}
	must(t, f.Close())
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	const said = 100
	w, err := z.CreateRaw(&zip.FileHeader{Name: "bomb", Method: zip.Deflate, UncompressedSize64: said, CompressedSize64: uint64(packed.Len())})
	must(t, err)
	_, err = w.Write(packed.Bytes())
	must(t, err)
	must(t, z.Close())
	into, err := unzipBytes(t, b.Bytes(), 1<<20)
	reason(t, err, BadBundle)
	if info, err := os.Stat(filepath.Join(into, "bomb")); err != nil || info.Size() > 1<<20+1 {
		t.Errorf("it wrote %v, %v", info, err)
	}
}

// A short text can name a long one very often: what a bundle is started with has a
// bound all the same.
func TestABundleGrowsWithinBounds(t *testing.T) {
	many := func(what string) string { return strings.Repeat(what, maxValue/len(what)) }
	list := func(n int, word string) string { return mustJSON(t, slices.Repeat([]string{word}, n)) }
	for name, option := range map[string]string{
		"a text": `{"default": "` + strings.Repeat("x", maxValue+1) + `"}`,
		"a word": `{"multiple": true, "default": ["` + strings.Repeat("x", maxValue+1) + `"]}`,
		"words":  `{"multiple": true, "default": ` + list(maxOptions+1, "") + `}`,
	} {
		if _, err := parseManifest([]byte(`{"server": {"mcp_config": {"command": "x"}}, "user_config": {"a": ` + option + `}}`)); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s: %v", name, err)
		}
	}

	env := map[string]string{}
	for i := range 8 {
		env["V"+strconv.Itoa(i)] = many("${user_config.a}")
	}
	long := `{"default": "` + many("x") + `"}`
	for name, c := range map[string]struct{ config, a, b string }{
		"arguments":       {`"args": ` + list(8, many("${user_config.a}")), long, long},
		"variables":       {`"env": ` + mustJSON(t, env), long, long},
		"words of a list": {`"args": ` + list(maxOptions, "${user_config.b}"), long, `{"multiple": true, "default": ` + list(8, many("${user_config.a}")) + `}`},
		"folders":         {`"args": ` + list(8, many("${user_config.a}")), `{"default": "` + many("${__dirname}") + `"}`, long},
	} {
		m, err := parseManifest([]byte(`{"server": {"mcp_config": {"command": "x", ` + c.config + `}}, "user_config": {"a": ` + c.a + `, "b": ` + c.b + `}}`))
		must(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = m.start(&Plan{Name: "x", opts: Options{Environ: []string{"PATH="}}}, t.TempDir(), "/final/"+strings.Repeat("f", 100))
		runtime.ReadMemStats(&after)
		reason(t, err, BadBundle)
		if took := after.TotalAlloc - before.TotalAlloc; took > 512<<20 { // the race detector takes its share
			t.Errorf("%s: that took %d MiB", name, took>>20)
		}
	}
}

func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		fullManifest, "{}", `{"server": {"mcp_config": {"command": "${user_config.a}"}}, "user_config": {"a": {"default": "${user_config.a}"}}}`,
		`{"server": {"mcp_config": {"command": "x", "args": ["${", "$${a}", "${user_config.}"]}}}`,
	} {
		f.Add([]byte(seed))
	}
	into := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest(text)
		if err != nil {
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Fatalf("the error has control characters: %q", err)
			}
			return
		}
		p := &Plan{Name: "x", opts: Options{Environ: []string{"PATH="}}}
		s, err := m.start(p, into, "/final")
		if err != nil {
			return
		}
		// The folder is empty, so only a bare name can be started.
		if s.entry.Command == "" || strings.ContainsAny(s.entry.Command, `/\`) {
			t.Fatalf("it would start %q", s.entry.Command)
		}
	})
}

func FuzzUnzip(f *testing.F) {
	f.Add(zipped(f, map[string]string{"a": "x", "b/c": "y"}, nil))
	f.Add(zipped(f, map[string]string{"../a": "x"}, nil))
	f.Fuzz(func(t *testing.T, archive []byte) {
		into, _ := unzipBytes(t, archive, 1<<20) // it may well be none
		left, err := os.ReadDir(filepath.Dir(into))
		if err != nil || len(left) != 2 {
			t.Fatalf("beside the folder there are %v, %v", left, err)
		}
	})
}
