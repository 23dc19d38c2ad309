// A server of revision 2026-07-28 whose results ask for input, with the tools and the
// prompt that the protocol's conformance suite asks for: asking.mjs stdio | http PORT.
import { createHmac, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const [how, port] = process.argv.slice(2);
const revision = "2026-07-28";
const prefix = "io.modelcontextprotocol/";

const key = randomBytes(32);
const sign = (text) => createHmac("sha256", key).update(text).digest("hex");
const seal = (text) => `${text}.${sign(text)}`;
const unseal = (state) => {
  const at = String(state).lastIndexOf(".");
  const text = String(state).slice(0, at);
  if (at < 0 || seal(text) !== state) throw { code: -32602, message: "the requestState is not this server's" };
  return text;
};

const form = (message, name, type) => ({
  method: "elicitation/create", params: { message, requestedSchema: { type: "object", properties: { [name]: { type } }, required: [name] } },
});
const sample = (text, maxTokens) => ({
  method: "sampling/createMessage", params: { messages: [{ role: "user", content: { type: "text", text } }], maxTokens },
});
const roots = { method: "roots/list", params: {} };
const ask = (inputRequests, state) => ({ resultType: "input_required", inputRequests, ...(state ? { requestState: seal(state) } : {}) });
const text = (t) => ({ resultType: "complete", content: [{ type: "text", text: t }] });
// answered says whether all questions have an answer that is an object.
const answered = (p, requests) => Object.keys(requests).every((k) => p.inputResponses?.[k] && typeof p.inputResponses[k] === "object");
// once asks until all is answered; with a state that has to come back.
const once = (requests, say, state) => (p) => {
  if (p.requestState !== undefined && state) unseal(p.requestState);
  return answered(p, requests) && (!state || p.requestState !== undefined) ? text(say(p.inputResponses)) : ask(requests, state);
};

const name = { user_name: form("What is your name?", "name", "string") };
const capital = { capital_question: sample("What is the capital of France?", 100) };
const folders = { client_roots: roots };
const confirm = { confirm: form("Please confirm", "ok", "boolean") };
const several = { ...name, greeting: sample("Generate a greeting", 50), ...folders };
const steps = [{ step1: form("Step 1: What is your name?", "name", "string") }, { step2: form("Step 2: What is your favorite color?", "color", "string") }];

const tools = {
  elicitation: once(name, (r) => `Hello, ${r.user_name.content?.name}!`),
  sampling: once(capital, (r) => r.capital_question.content.text),
  list_roots: once(folders, (r) => JSON.stringify(r.client_roots.roots)),
  request_state: once(confirm, () => "state-ok", "state"),
  tampered_state: once(confirm, () => "state-ok", "state"),
  multiple_inputs: once(several, () => "done", "state"),
  multi_round: (p) => {
    const round = p.requestState === undefined ? 0 : Number(unseal(p.requestState));
    const next = round === 0 || !answered(p, steps[round - 1]) ? Math.max(round, 1) : round + 1;
    return next > steps.length ? text("done") : ask(steps[next - 1], String(next));
  },
  capabilities: (p) => {
    const can = p._meta?.[prefix + "clientCapabilities"] ?? {};
    const requests = { ...(can.elicitation ? name : {}), ...(can.sampling ? capital : {}) };
    return answered(p, requests) ? text("done") : ask(requests);
  },
};
const tool = "test_input_required_result_";
const context = { user_context: form("What context should the prompt use?", "context", "string") };
const cached = { resultType: "complete", ttlMs: 60000, cacheScope: "private" };
const unknown = (what) => { throw { code: -32602, message: `there is no ${what}` }; };

const methods = {
  "server/discover": () => ({ ...cached, supportedVersions: [revision], capabilities: { tools: {}, prompts: {} } }),
  "tools/list": () => ({ ...cached, tools: Object.keys(tools).map((n) => ({ name: tool + n, inputSchema: { type: "object" } })) }),
  "tools/call": (p) => (tools[String(p.name).slice(tool.length)] ?? (() => unknown("such tool")))(p),
  "prompts/list": () => ({ ...cached, prompts: [{ name: tool + "prompt" }] }),
  "prompts/get": (p) => {
    if (p.name !== tool + "prompt") unknown("such prompt");
    if (!answered(p, context)) return ask(context);
    return { resultType: "complete", messages: [{ role: "user", content: { type: "text", text: p.inputResponses.user_context.content.context } }] };
  },
};

const answer = (request) => {
  const { id, method, params = {} } = request;
  try {
    if (!methods[method]) throw { code: -32601, message: `there is no method ${method}` };
    const result = methods[method](params);
    return { jsonrpc: "2.0", id, result: { ...result, _meta: { [prefix + "serverInfo"]: { name: "asking", version: "1" } } } };
  } catch (e) {
    return { jsonrpc: "2.0", id, error: { code: e.code ?? -32603, message: e.message } };
  }
};

if (how === "stdio") {
  createInterface({ input: process.stdin }).on("line", (line) => {
    const request = JSON.parse(line);
    if (request.id !== undefined) process.stdout.write(JSON.stringify(answer(request)) + "\n");
  });
} else {
  createServer(async (req, res) => {
    let body = "";
    for await (const part of req) body += part;
    if (req.method !== "POST") return res.writeHead(405).end();
    const request = JSON.parse(body);
    if (request.id === undefined) return res.writeHead(202).end();
    const reply = answer(request);
    res.writeHead(reply.error?.code === -32601 ? 404 : 200, { "Content-Type": "application/json" }).end(JSON.stringify(reply));
  }).listen(Number(port), "127.0.0.1");
}
