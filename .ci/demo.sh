#!/usr/bin/env bash
# Shows metamcp at work on real child servers: discover, call, trace. It needs
# nothing but the built binary; where Node.js and npm are there, servers from
# npm take part as well. Everything happens in a folder of its own.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin="$PWD/bin/metamcp"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }
run() {
	local shown='$ metamcp' arg
	for arg in "$@"; do
		case $arg in *[!A-Za-z0-9._/-]*) shown+=" '$arg'" ;; *) shown+=" $arg" ;; esac
	done
	printf '%s\n' "$shown"
	"$bin" --config "$work/mcp.json" --state-dir "$work/state" "$@"
}

servers="\"demo\": {\"command\": \"$bin\", \"args\": [\"demo-server\"], \"description\": \"small tools for trying things out\"}"
servers+=", \"broken\": {\"command\": \"no-such-command\"}"
npm=no
if command -v node >/dev/null && command -v npm >/dev/null; then
	say "Installing MCP servers from npm (pinned in integration/npmservers)"
	if (cd integration/npmservers && npm ci --silent --no-audit --no-fund); then
		npm=yes
		modules="$PWD/integration/npmservers/node_modules/@modelcontextprotocol"
		mkdir -p "$work/files" && echo 'Actors never block their mailbox.' >"$work/files/note.txt"
		servers+=", \"everything\": {\"command\": \"node\", \"args\": [\"$modules/server-everything/dist/index.js\", \"stdio\"]}"
		servers+=", \"filesystem\": {\"command\": \"node\", \"args\": [\"$modules/server-filesystem/dist/index.js\", \"$work/files\"]}"
	else
		echo "npm could not install them; the built-in server stands in."
	fi
fi
printf '{"mcpServers": {%s}}\n' "$servers" >"$work/mcp.json"

say "The configured servers. None runs yet."
run discover

say "Find a tool by what it does. Servers never seen are started and asked, the broken one delays nobody."
run discover "read the text of a file"

say "Call one. Its server is started, its process tree is ended afterwards."
run call demo add '{"a": 19, "b": 23}'
if [ "$npm" = yes ]; then
	run call filesystem read_text_file "{\"path\": \"$work/files/note.txt\"}"
	run call everything get-sum '{"a": 19, "b": 23}'
fi

say "Many calls in one go: a script, in a sandbox that has nothing but the tools. What it returns is all that comes back."
if [ "$npm" = yes ]; then
	cat >"$work/report.ts" <<EOF
const root: string = "$work/files";
const { content } = await servers.filesystem.list_directory({ path: root });
const names = content.split("\\n").map((l: string) => l.replace("[FILE] ", ""));
console.log("reading", names.length, "file(s)");
const texts = await Promise.all(names.map((n: string) => servers.filesystem.read_text_file({ path: root + "/" + n })));
const letters = texts.reduce((sum, t) => sum + t.content.length, 0);
return { names, letters, said: await servers.everything["get-sum"]({ a: letters, b: 1 }) };
EOF
else
	cat >"$work/report.ts" <<'EOF'
const sums = await Promise.all([1, 2, 3].map((n: number) => servers.demo.add({ a: n, b: n })));
console.log("added", sums.length, "times");
return { sums: sums.map(s => s.sum) };
EOF
fi
cat "$work/report.ts"
run --trace="$work/script.jsonl" exec "$work/report.ts"
echo 'return await servers.demo.add({a: 1})' | run exec - || true

say "What the actors said to each other for it: the script is one request, its calls belong to it."
"$bin" trace "$work/script.jsonl"

if [ "$npm" = yes ]; then
	say "A server that is not configured, named exactly and trusted: installed, tried once, kept, and there."
	run provision @modelcontextprotocol/server-memory --yes
	run call server-memory read_graph '{}'
	say "One that nobody trusts is only recommended."
	run provision @playwright/mcp --yes || true
fi

say "Errors say what to do next."
run call demo ad '{"a": 1}' || true
run call broken anything || true

say "The same over MCP, as an LLM client speaks it."
printf '%s\n' \
	'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}}' \
	'{"jsonrpc":"2.0","method":"notifications/initialized"}' \
	'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"demo","tool":"echo","args":{"text":"hello"}}}}' |
	"$bin" --config "$work/mcp.json" --state-dir "$work/state"

say "What the actors said to each other during one call: a trace, and one request of it as a sequence diagram."
run --trace="$work/run.jsonl" call demo echo '{"text": "hello"}'
"$bin" trace "$work/run.jsonl"
"$bin" trace "$work/run.jsonl" show 1 --width 130

say "Every call is on record, and the record is whole."
run audit list
run audit verify
