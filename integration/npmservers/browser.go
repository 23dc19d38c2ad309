package npmservers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// BrowserVariable names the environment variable with the path of a Chromium
// or Chrome that the tests use instead of their own.
const BrowserVariable = "METAMCP_TEST_BROWSER"

// unpackTimeout bounds the unpacking of the browser, which takes seconds.
const unpackTimeout = 2 * time.Minute

// A Browser is a headless Chromium.
type Browser struct {
	Path string
	// Env is what it needs beyond this process's environment.
	Env []string
}

// Chromium returns a browser: the one that [BrowserVariable] names; else on
// linux/amd64 the pinned one from npm, which needs no library but libc and
// libgcc; else the machine's. It fails the test where there is none.
func Chromium(tb testing.TB) Browser {
	tb.Helper()
	if path := os.Getenv(BrowserVariable); path != "" {
		return Browser{Path: existing(tb, path)}
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return pinnedChromium(tb)
	}
	for _, name := range []string{
		"chromium", "chromium-browser", "google-chrome", "chrome",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return Browser{Path: path}
		}
	}
	tb.Fatalf("the tests of the web page need Chromium or Chrome; install one (Debian: apt-get install chromium), or name it in %s", BrowserVariable)
	return Browser{}
}

// BrowserDir is [Dir] for the folder with the browser; about 70 MB, and 220 MB
// more where it is unpacked.
func BrowserDir(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(packageDir(tb), "browser")
	if err := install(tb.Context(), dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func pinnedChromium(tb testing.TB) Browser {
	tb.Helper()
	dir := BrowserDir(tb)
	packed := filepath.Join(dir, "node_modules", "@sparticuz", "chromium", "bin")
	existing(tb, packed)
	// It lies within node_modules, so that a new installation removes it.
	unpacked := filepath.Join(dir, "node_modules", ".chromium")
	if err := unpackOnce(tb.Context(), Node(tb), dir, packed, unpacked); err != nil {
		tb.Fatal(err)
	}
	return Browser{
		Path: filepath.Join(unpacked, "chromium"),
		Env:  []string{"LD_LIBRARY_PATH=" + filepath.Join(unpacked, "lib")},
	}
}

// unpackOnce unpacks the browser unless that is done; whoever comes second
// waits.
func unpackOnce(ctx context.Context, node, dir, packed, to string) (err error) {
	inProcess.Lock()
	defer inProcess.Unlock()
	lock, err := lockFile(filepath.Join(dir, ".install.lock"))
	if err != nil {
		return fmt.Errorf("lock %s against other tests: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, unpackTimeout)
	defer cancel()
	making := to + ".new"
	if err := errors.Join(os.RemoveAll(making), os.Mkdir(making, 0o700)); err != nil {
		return err
	}
	if err := unbrotli(ctx, node, filepath.Join(packed, "chromium.br"), func(r io.Reader) error {
		return write(filepath.Join(making, "chromium"), r)
	}); err != nil {
		return err
	}
	for _, name := range []string{"al2023", "swiftshader"} {
		if err := unbrotli(ctx, node, filepath.Join(packed, name+".tar.br"), func(r io.Reader) error { return untar(r, making) }); err != nil {
			return err
		}
	}
	return os.Rename(making, to)
}

// unbrotli hands the unpacked bytes of a file to take. Node.js unpacks it, so
// that no module is needed for that.
func unbrotli(ctx context.Context, node, file string, take func(io.Reader) error) error {
	const program = `require("stream").pipeline(require("fs").createReadStream(process.argv[1]), require("zlib").createBrotliDecompress(), process.stdout, e => { if (e) throw e })`
	cmd := exec.CommandContext(ctx, node, "-e", program, file)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("unpack %s: %w", file, err)
	}
	err = take(out)
	if _, drainErr := io.Copy(io.Discard, out); err == nil {
		err = drainErr
	}
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", file, err, complaints.Bytes())
	}
	return nil
}

func untar(r io.Reader, dir string) error {
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("the archive has a file %q", h.Name)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := write(path, archive); err != nil {
			return err
		}
	}
}

func write(path string, r io.Reader) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, r)
	return err
}
