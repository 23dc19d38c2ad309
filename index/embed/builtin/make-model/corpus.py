"""The texts that the word vectors and the adapt matrix are trained on.

They are names and one-line summaries of software packages: a file of lines
"name<TAB>summary". For the model that is shipped these were the some 854,000
different English summaries of 20 to 400 characters in the public listings of
npm, PyPI and NuGet of November 2026. The texts themselves are not shipped.
"""

import random
import re


def split(text):
    """Camel case, snake case and such as words with spaces between."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", text)
    return re.sub(r"[^0-9A-Za-z\u0080-\uffff]+", " ", text).strip()


def words(text):
    """What words in ../words.go returns."""
    return re.findall(r"[a-z]+|[0-9]+", split(text).lower())


def read(path):
    """The (name, summary) pairs, without repeated and foreign ones."""
    out, seen = [], set()
    for line in open(path, encoding="utf-8", errors="replace"):
        name, _, text = line.rstrip("\n").partition("\t")
        text = re.sub(r"https?://\S+|<[^>]+>|[\x00-\x1f]", " ", text)
        text = re.sub(r"\s+", " ", text).strip()
        if not 20 <= len(text) <= 400 or sum(c.isascii() for c in text) < 0.97 * len(text):
            continue
        if text.lower()[:60] in seen:
            continue
        seen.add(text.lower()[:60])
        out.append((name, text))
    return out


def text_pairs(corpus, count, seed):
    """Pairs of texts that belong together, as a request and a tool do: a name
    and its summary, or one half of a summary and the name with the other."""
    rng = random.Random(seed)
    corpus = [(split(name), text) for name, text in corpus if len(text.split()) >= 8]
    rng.shuffle(corpus)
    out = []
    for name, text in corpus[:count]:
        if rng.random() < 0.4 and len(name.split()) >= 2:
            a, b = name, text
        else:
            w = text.split()
            halves = [w[: len(w) // 2], w[len(w) // 2 :]]
            rng.shuffle(halves)
            a, b = " ".join(halves[0]), " ".join(halves[1])
            if rng.random() < 0.7:
                b = f"{name}. {b}"
        out.append((a[:160], b[:200]))
    return out
