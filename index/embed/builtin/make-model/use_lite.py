"""The Universal Sentence Encoder lite in float32, for training the matrix that
stands behind it. It gives the vectors of the original JavaScript build to 1e-6
(run it with the package's folder and ../testdata to see).
"""

import json
import os
import sys
import unicodedata

import numpy as np
import torch

from make_model import layer_weights, read_weights


class Tokenizer:
    """See tokenizer in ../tokenizer.go."""

    def __init__(self, dist):
        self.all = json.load(open(os.path.join(dist, "vocab.json")))
        self.pieces = {text: (score or 0.0, i) for i, (text, score) in enumerate(self.all) if i >= 6}
        self.longest = max(len(p) for p in self.pieces)

    def __call__(self, text):
        text = unicodedata.normalize("NFKC", text)
        text = "\u2581" + text.replace(" ", "\u2581")
        n = len(text)
        best, last = [0.0] * (n + 1), [0] * (n + 1)
        for i in range(n):
            found = False
            for j in range(i + 1, min(n, i + self.longest) + 1):
                piece = self.pieces.get(text[i:j])
                if piece is None:
                    continue
                found = True
                if best[j] == 0 or piece[0] + best[i] >= best[j]:
                    best[j], last[j] = piece[0] + best[i], piece[1]
            if not found and (best[i + 1] == 0 or best[i] >= best[i + 1]):
                best[i + 1], last[i + 1] = best[i], 0
        out, i = [], n
        while i > 0:
            if not (out and out[-1] == 0 and last[i] == 0):
                out.append(last[i])
            i -= len(self.all[last[i]][0])
        return out[::-1][:128]


class Encoder:
    """See encoder in ../encoder.go."""

    def __init__(self, dist):
        weights = layer_weights(read_weights(dist))
        self.w = {k: torch.tensor(np.ascontiguousarray(v)) for k, v in weights.items()}
        self.tokenizer = Tokenizer(dist)

    def multiply(self, name, x):
        return x @ self.w[name] + self.w[name + ".bias"]

    def norm(self, name, x):
        d = x - x.mean(-1, keepdim=True)
        return self.w[name + ".gain"] * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-6) * d + self.w[name + ".bias"]

    def batch(self, ids, mask):
        count, length = ids.shape
        angle = torch.arange(length).float()[:, None] * self.w["timing"][None]
        x = 2 * self.w["token"][ids] + torch.cat([angle.sin(), angle.cos()], 1)[None]
        padding = (~mask).float()[:, None, None, :] * -1e9
        for i in ("0.", "1."):
            size = x.shape[-1]
            q, k, v = (
                t.view(count, length, 4, -1).transpose(1, 2)
                for t in self.multiply(i + "qkv", self.norm(i + "norm1", x)).chunk(3, -1)
            )
            a = torch.softmax(q @ k.transpose(-1, -2) * (size // 4) ** -0.5 + padding, -1) @ v
            a = self.multiply(i + "out", a.transpose(1, 2).reshape(count, length, -1))
            x = a + (self.multiply("0.project", x) if i == "0." else x)
            h = torch.relu(self.multiply(i + "ff1", self.norm(i + "norm2", x)))
            x = x + self.multiply(i + "ff2", h)
        m = mask.float()[..., None]
        out = torch.tanh(self.multiply("head", (x * m).sum(1) / m.sum(1)))
        return torch.nn.functional.normalize(out, dim=1)

    @torch.no_grad()
    def encode(self, texts, size=64):
        """The vectors of the texts, in their order."""
        tokens = [self.tokenizer(t) or [0] for t in texts]
        order = sorted(range(len(texts)), key=lambda i: len(tokens[i]))
        out = np.zeros((len(texts), 512), np.float32)
        for at in range(0, len(order), size):
            some = order[at : at + size]
            length = max(len(tokens[i]) for i in some)
            ids = torch.zeros(len(some), length, dtype=torch.long)
            mask = torch.zeros(len(some), length, dtype=torch.bool)
            for row, i in enumerate(some):
                ids[row, : len(tokens[i])] = torch.tensor(tokens[i])
                mask[row, : len(tokens[i])] = True
            out[some] = self.batch(ids, mask).numpy()
        return out


def main():
    texts = open(os.path.join(sys.argv[2], "texts.txt"), encoding="utf-8").read().splitlines()[::8]
    want = np.fromfile(os.path.join(sys.argv[2], "vectors.f32"), "<f4").reshape(len(texts), 512)
    got = Encoder(os.path.join(sys.argv[1], "dist")).encode(texts)
    print("largest difference of any number:", np.abs(got - want).max())


if __name__ == "__main__":
    main()
