// A client of the official TypeScript SDK: it lists tools, calls one of a server
// behind metamcp with progress, and prints what it saw as one JSON object.
//
// node call.mjs FOLDER v1|v2 legacy|modern URL
// node call.mjs FOLDER v1|v2 legacy|modern COMMAND ARGUMENT…
const [folder, generation, era, target, ...args] = process.argv.slice(2);
const scope = `${folder}/node_modules/@modelcontextprotocol`;
const overHTTP = target.startsWith("http");

let Client, HTTP, Stdio;
if (generation === "v1") {
  ({ Client } = await import(`${scope}/sdk/dist/esm/client/index.js`));
  ({ StreamableHTTPClientTransport: HTTP } = await import(`${scope}/sdk/dist/esm/client/streamableHttp.js`));
  ({ StdioClientTransport: Stdio } = await import(`${scope}/sdk/dist/esm/client/stdio.js`));
} else {
  ({ Client, StreamableHTTPClientTransport: HTTP } = await import(`${scope}/client/dist/index.mjs`));
  ({ StdioClientTransport: Stdio } = await import(`${scope}/client/dist/stdio.mjs`));
}
const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
const client = new Client({ name: `sdk-${generation}`, version: "1" }, { versionNegotiation: { mode } });
const headers = process.env.TOKEN ? { Authorization: `Bearer ${process.env.TOKEN}` } : {};
const transport = overHTTP
  ? new HTTP(new URL(target), { requestInit: { headers } })
  : new Stdio({ command: target, args, env: process.env, stderr: "inherit" });
await client.connect(transport);

const seen = { tools: [], progress: [], version: transport.protocolVersion ?? null };
seen.tools = (await client.listTools()).tools.map((t) => t.name);
const call = (tool, args, options) => {
  const params = { name: "mcp_call", arguments: { server: "demo", tool, args } };
  return generation === "v1" ? client.callTool(params, undefined, options) : client.callTool(params, options);
};
const onprogress = (p) => seen.progress.push(p.progress);
// Over stdio the SDK loses the progress that comes in one read with the answer: the
// last, and more of it where the machine is busy.
let slow;
for (let i = 0; i < 20 && seen.progress.length < (overHTTP ? 1 : 4); i++) {
  seen.progress = [];
  slow = await call("slow", { steps: 5, ms: 100 }, { onprogress });
}
seen.slow = slow.isError ? `error: ${JSON.stringify(slow)}` : slow.content[0].text;
const many = await Promise.all(Array.from({ length: 20 }, (_, i) => call("echo", { text: `t${i}` })));
seen.echoes = many.map((r) => r.content[0].text);

// A call that is given up, and that nothing is left of.
const enough = new AbortController();
const given = call("slow", { ms: 60000 }, { signal: enough.signal }).then(() => "answered", () => "given up");
setTimeout(() => enough.abort(), 50);
seen.abort = await given;
if (overHTTP && era === "legacy") await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
