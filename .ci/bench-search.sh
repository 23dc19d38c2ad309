#!/bin/sh
# Scores every ranking, with and without the built-in embedder, on a retrieval
# benchmark: a folder with catalog.jsonl, queries.jsonl and a scorer in score/.
set -eu
dir=${1:?usage: bench-search.sh FOLDER}
[ -f "$dir/catalog.jsonl" ] || { echo "there is no retrieval benchmark in $dir; set RETRIEVAL_DIR" >&2; exit 1; }
dir=$(cd "$dir" && pwd)
bin=$(pwd)/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "{}" > "$work/none.json"
(cd "$dir/score" && "${GO:-go}" build -o "$work/score" .)
for setup in classic/none classic/builtin anygpt/none hybrid/none hybrid/builtin; do
	ranking=${setup%/*} embedder=${setup#*/}
	echo "== ranking $ranking, embedder $embedder"
	# Without a configuration of the user's.
	HOME=$work "$bin/metamcp" bench search --ranking "$ranking" --embedder "$embedder" --config "$work/none.json" \
		--catalog "$dir/catalog.jsonl" --queries "$dir/queries.jsonl" --run "$work/run.jsonl"
	"$work/score" -catalog "$dir/catalog.jsonl" -queries "$dir/queries.jsonl" -run "$work/run.jsonl"
done
