// Package web shows a running host in a browser: its servers, its pool, what
// its actors say to each other, and the catalog.
//
// It is there only where somebody asked for it, answers on a loopback address
// alone, and changes nothing but that a search may start servers whose tools
// nobody has seen yet. Whoever looks needs the token of [Server.URL]; the
// browser exchanges it for a cookie. See docs/WEB.md for what protects it.
//
// The trace is attached while at least one page is open, once for all pages;
// nobody pays for it at other times. The page is in the folder page: plain
// HTML, CSS and JavaScript modules, as they are sent.
package web
