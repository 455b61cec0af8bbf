#!/bin/sh
# The commit that this tree is, twelve digits, with "+" behind them where files were changed since; nothing where it is not
# known. In an archive that git made, git has filled in the line below (.gitattributes).
archived='$Format:%H$'
case $archived in
'$'*) ;;
*) printf '%.12s\n' "$archived"; exit 0 ;;
esac
cd "$(dirname "$0")/.." && [ -e .git ] || exit 0
commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || exit 0
git diff --quiet HEAD 2>/dev/null || commit=$commit+
echo "$commit"
