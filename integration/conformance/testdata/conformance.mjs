// A server with what the protocol's conformance suite asks for, made with the
// official SDK of the older protocol: conformance.mjs SDK stdio | http PORT.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [sdk, how, port] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(sdk, "dist", "esm", file)).href);
const { Server } = await load("server/index.js");
const types = await load("types.js");

const image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";
const audio = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const text = (t) => ({ type: "text", text: t });
const picture = { type: "image", data: image, mimeType: "image/png" };
const embedded = (uri, mimeType, t) => ({ type: "resource", resource: { uri, mimeType, text: t } });
const pause = () => new Promise((done) => setTimeout(done, 50));
const object = (properties, required) => ({ type: "object", properties, ...(required ? { required } : {}) });

const elicit = async (extra, message, requestedSchema) => {
  const r = await extra.sendRequest({ method: "elicitation/create", params: { message, requestedSchema } }, types.ElicitResultSchema);
  return { content: [text(`Elicitation completed: action=${r.action}, content=${JSON.stringify(r.content)}`)] };
};

const tools = {
  test_simple_text: { run: () => ({ content: [text("This is a simple text response for testing.")] }) },
  test_image_content: { run: () => ({ content: [picture] }) },
  test_audio_content: { run: () => ({ content: [{ type: "audio", data: audio, mimeType: "audio/wav" }] }) },
  test_embedded_resource: { run: () => ({ content: [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")] }) },
  test_multiple_content_types: {
    run: () => ({ content: [text("Multiple content types test:"), picture, embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')] }),
  },
  test_error_handling: { run: () => ({ isError: true, content: [text("This tool intentionally returns an error for testing")] }) },
  test_tool_with_logging: {
    run: async (_, extra) => {
      for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
        await extra.sendNotification({ method: "notifications/message", params: { level: "info", logger: "fixture", data } });
        await pause();
      }
      return { content: [text("logged")] };
    },
  },
  test_tool_with_progress: {
    run: async (_, extra) => {
      const progressToken = extra._meta?.progressToken;
      for (const progress of [0, 50, 100]) {
        if (progressToken !== undefined) await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
        await pause();
      }
      return { content: [text("done")] };
    },
  },
  test_sampling: {
    input: object({ prompt: { type: "string" } }, ["prompt"]),
    run: async (args, extra) => {
      const params = { messages: [{ role: "user", content: text(args.prompt) }], maxTokens: 100 };
      const r = await extra.sendRequest({ method: "sampling/createMessage", params }, types.CreateMessageResultSchema);
      return { content: [text("LLM response: " + r.content.text)] };
    },
  },
  test_elicitation: {
    input: object({ message: { type: "string" } }, ["message"]),
    run: (args, extra) => elicit(extra, args.message, object({ username: { type: "string" }, email: { type: "string" } }, ["username", "email"])),
  },
  test_elicitation_sep1034_defaults: {
    run: (_, extra) =>
      elicit(extra, "Check the defaults", object({
        name: { type: "string", default: "John Doe" },
        age: { type: "integer", default: 30 },
        score: { type: "number", default: 95.5 },
        status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
        verified: { type: "boolean", default: true },
      })),
  },
  test_elicitation_sep1330_enums: {
    run: (_, extra) =>
      elicit(extra, "Choose", object({
        untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
        titledSingle: { type: "string", oneOf: [{ const: "value1", title: "First" }, { const: "value2", title: "Second" }, { const: "value3", title: "Third" }] },
        legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
        untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
        titledMulti: { type: "array", items: { anyOf: [{ const: "value1", title: "First" }, { const: "value2", title: "Second" }, { const: "value3", title: "Third" }] } },
      })),
  },
  json_schema_2020_12_tool: {
    input: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
      properties: {
        name: { type: "string" },
        address: { $ref: "#/$defs/address" },
        contactMethod: { type: "string", enum: ["phone", "email"] },
        phone: { type: "string" },
        email: { type: "string" },
      },
      allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
      if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
      then: { required: ["phone"] },
      else: { required: ["email"] },
      additionalProperties: false,
    },
    run: () => ({ content: [text("ok")] }),
  },
};

const prompts = {
  test_simple_prompt: { run: () => [text("This is a simple prompt for testing.")] },
  test_prompt_with_arguments: {
    arguments: [{ name: "arg1", required: true }, { name: "arg2", required: true }],
    run: (a) => [text(`Prompt with arguments: arg1='${a.arg1}', arg2='${a.arg2}'`)],
  },
  test_prompt_with_embedded_resource: {
    arguments: [{ name: "resourceUri", required: true }],
    run: (a) => [embedded(a.resourceUri, "text/plain", "Embedded resource content for testing."), text("Please process the embedded resource above.")],
  },
  test_prompt_with_image: { run: () => [picture, text("Please analyze the image above.")] },
};

const read = (uri) => {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (uri === "test://static-text") return { uri, mimeType: "text/plain", text: "This is the content of the static text resource." };
  if (uri === "test://static-binary") return { uri, mimeType: "image/png", blob: image };
  if (uri === "test://watched-resource") return { uri, mimeType: "text/plain", text: "watched" };
  if (id) return { uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
  throw new types.McpError(-32002, "Resource not found", { uri });
};

const make = () => {
  const s = new Server({ name: "fixture", version: "1.0.0" }, { capabilities: { tools: {}, resources: { subscribe: true }, prompts: {}, completions: {}, logging: {} } });
  s.setRequestHandler(types.ListToolsRequestSchema, () => ({
    tools: Object.entries(tools).map(([name, t]) => ({ name, description: `Fixture ${name}`, inputSchema: t.input ?? object({}) })),
  }));
  s.setRequestHandler(types.CallToolRequestSchema, (r, extra) => {
    const t = tools[r.params.name];
    if (!t) throw new types.McpError(types.ErrorCode.InvalidParams, `unknown tool ${r.params.name}`);
    return t.run(r.params.arguments ?? {}, extra);
  });
  s.setRequestHandler(types.ListResourcesRequestSchema, () => ({
    resources: [
      { uri: "test://static-text", name: "static-text", description: "A text", mimeType: "text/plain" },
      { uri: "test://static-binary", name: "static-binary", description: "A picture", mimeType: "image/png" },
      { uri: "test://watched-resource", name: "watched", description: "For subscriptions", mimeType: "text/plain" },
    ],
  }));
  s.setRequestHandler(types.ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", description: "By id", mimeType: "application/json" }],
  }));
  s.setRequestHandler(types.ReadResourceRequestSchema, (r) => ({ contents: [read(r.params.uri)] }));
  s.setRequestHandler(types.SubscribeRequestSchema, () => ({}));
  s.setRequestHandler(types.UnsubscribeRequestSchema, () => ({}));
  s.setRequestHandler(types.ListPromptsRequestSchema, () => ({
    prompts: Object.entries(prompts).map(([name, p]) => ({ name, description: `Fixture ${name}`, ...(p.arguments ? { arguments: p.arguments } : {}) })),
  }));
  s.setRequestHandler(types.GetPromptRequestSchema, (r) => ({
    messages: prompts[r.params.name].run(r.params.arguments ?? {}).map((content) => ({ role: "user", content })),
  }));
  s.setRequestHandler(types.CompleteRequestSchema, () => ({ completion: { values: [], total: 0, hasMore: false } }));
  return s;
};

if (how === "stdio") {
  const { StdioServerTransport } = await load("server/stdio.js");
  await make().connect(new StdioServerTransport());
} else {
  const { StreamableHTTPServerTransport } = await load("server/streamableHttp.js");
  const sessions = new Map();
  createServer(async (req, res) => {
    const local = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;
    const origin = req.headers.origin && new URL(req.headers.origin).host;
    if (!local.test(req.headers.host ?? "") || (origin && !local.test(origin))) return void res.writeHead(403).end();
    let transport = sessions.get(req.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id),
      });
      await make().connect(transport);
    }
    await transport.handleRequest(req, res);
  }).listen(Number(port), "127.0.0.1");
}
