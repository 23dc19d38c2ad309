// Package npmservers installs real MCP servers from npm, and what else of npm tests
// need, at pinned versions and with checked hashes.
//
// There are six folders, so that a test that needs only the small one never
// waits for the large ones:
//
//   - this one: the reference servers, which run on any Node.js from version 20 on
//   - modern: a server of protocol revision 2026-07-28 together with the newer
//     Node.js that it needs
//   - clients: the protocol's official clients
//   - conformance: the protocol's conformance suite
//   - compiler: the one of TypeScript
//   - browser: a headless Chromium for the tests of the web page
//
// What is installed stays in their node_modules until the lock file changes;
// packages under test at the same time wait for each other.
//
// Servers are started as `node FILE`, never through npx: that is one process
// instead of three, and starts a second faster.
package npmservers
