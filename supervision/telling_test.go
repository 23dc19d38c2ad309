package supervision_test

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/supervision"
)

// TestTheReasonOfTools takes what the tools themselves wrote.
func TestTheReasonOfTools(t *testing.T) {
	for _, c := range []struct{ name, stderr, want string }{
		{"npx, no such package", `npm error code E404
npm error 404 Not Found - GET https://registry.example.org/@nobody%2fno-such-package
npm error 404
npm error 404  The requested resource '@nobody/no-such-package@*' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/someone/.npm/_logs/2026-11-28T08_14_59_457Z-debug-0.log`,
			"npm error 404 Not Found - GET https://registry.example.org/@nobody%2fno-such-package"},
		{"npm of old", "npm ERR! code E404\nnpm ERR! 404 Not Found - GET https://r/x - Not found\nnpm ERR! 404 \nnpm ERR! 404  'x@*' is not in this registry.\n\nnpm ERR! A complete log of this run can be found in:\nnpm ERR!     /x.log",
			"npm ERR! 404 Not Found - GET https://r/x - Not found"},
		{"npx, offline", `npm error code ENOTFOUND
npm error syscall getaddrinfo
npm error errno ENOTFOUND
npm error network request to https://registry.example.org/x failed, reason: getaddrinfo ENOTFOUND registry.example.org
npm error network This is a problem related to network connectivity.
npm error A complete log of this run can be found in: /home/someone/.npm/_logs/x.log`,
			"npm error network request to https://registry.example.org/x failed, reason: getaddrinfo ENOTFOUND registry.example.org"},
		{"npm, a code alone", "npm error code EACCES\nnpm error syscall open\nnpm error A complete log of this run can be found in: /x.log", "npm error code EACCES"},
		{"node, missing module", `node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module '/nowhere/x.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2`, "Error: Cannot find module '/nowhere/x.js'"},
		{"node, colours", "\x1b[31mTypeError [ERR_X]: bad thing\x1b[0m\n    at error (file:///x.js:1:1)", "TypeError [ERR_X]: bad thing"},
		{"python, missing module", `Traceback (most recent call last):
  File "<string>", line 1, in <module>
ModuleNotFoundError: No module named 'nosuchmod'`, "ModuleNotFoundError: No module named 'nosuchmod'"},
		{"python, a chain", `Traceback (most recent call last):
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "error.py", line 3, in <module>
pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings`, "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings"},
		{"uvx, no such package", `  × No solution found when resolving tool dependencies:
  ╰─▶ Because no-such-package was not found in the package registry and you
      require no-such-package, we can conclude that your requirements are
      unsatisfiable.`, "Because no-such-package was not found in the package registry and you"},
		{"docker, no daemon", `docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?

Run 'docker run --help' for more information`, "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"},
		{"sh", "sh: 1: no-such-command: not found", "sh: 1: no-such-command: not found"},
		{"bash", "bash: line 1: no-such-command: command not found", "no-such-command: command not found"},
		{"go", `panic: runtime error: index out of range [5] with length 0

goroutine 1 [running]:
main.main()
	/src/error.go:3 +0x14
exit status 2`, "panic: runtime error: index out of range [5] with length 0"},
		{"rust", "thread 'main' panicked at src/main.rs:2:5:\nno config\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace", "thread 'main' panicked at src/main.rs:2:5:"},
		{"a log", "INFO starting\nERROR the port is taken\nINFO bye", "ERROR the port is taken"},
		{"words", "one\ntwo", "two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := supervision.Describe("s", exitWith(1, strings.Split(c.stderr, "\n")...))
			if !strings.Contains(e.Message, "exited with code 1: ") || !strings.Contains(e.Message, c.want) {
				t.Errorf("%s\nwant %s", e.Message, c.want)
			}
		})
	}
}
