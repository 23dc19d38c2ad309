// Package npmservers installs real MCP servers from npm, at pinned versions and
// with checked hashes, for the end-to-end tests.
//
// There are four folders, so that a test that needs only the small one never
// waits for the large ones: browser holds a headless Chromium for the tests of
// the web page, compiler the one of TypeScript, this one holds the reference servers, which run on
// any Node.js from version 20 on, and modern holds a server of protocol revision
// 2026-07-28 together with the newer Node.js that it needs. What is installed
// stays in their node_modules until the lock file changes; packages under test
// at the same time wait for each other.
//
// Servers are started as `node FILE`, never through npx: that is one process
// instead of three, and starts a second faster.
package npmservers
