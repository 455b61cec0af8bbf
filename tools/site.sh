#!/usr/bin/env bash
# The documentation as a web site with search, in build/site: the pages of docs/, the options from the option tables, and the
# C API from the public headers. Takes mkdocs (tools/setup.sh site).
# Usage: tools/site.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
pages=build/site-pages

command -v mkdocs >/dev/null || { echo "site.sh: mkdocs is not installed; run tools/setup.sh site" >&2; exit 1; }
rm -rf "$pages"
mkdir -p "$pages"
cp -r docs/. "$pages"
# The README is the first page; what it names outside of docs/ is shown, not linked.
sed -E -e 's#\]\(docs/#](#g' -e 's#\[[^]]*\]\((LICENSE|CONTRIBUTING\.md|CHANGELOG\.md)\)#`\1`#g' README.md > "$pages/index.md"
# Links of pages to files outside of docs/ become their names.
find "$pages" -name '*.md' -print0 | xargs -0 sed -i -E \
	-e 's#\[`?([^]`]*)`?\]\((\.\./)+(CONTRIBUTING\.md|CHANGELOG\.md|LICENSE|examples|data|src|lang|lib|study|include|tests|tools|bench|python)([^)]*)\)#`\3\4`#g'
tools/api_docs.py "$pages/reference/api.md"
{
	printf '# Options\n\nEvery verb, as `lockstep help VERB` prints it.\n'
	"$program" --verbs | while read -r verb; do
		printf '\n## %s\n\n```\n' "$verb"
		COLUMNS=100 "$program" help "$verb"
		printf '```\n'
	done
} > "$pages/reference/options.md"
sed -i 's|`options`, every option|[options](options.md), every option|; s|^`api`, the C API|[api](api.md), the C API|' "$pages/reference/README.md"
mkdocs --quiet build --clean
echo "site: $(find build/site -name '*.html' | wc -l) pages in build/site/index.html"
