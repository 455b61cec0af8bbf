#!/usr/bin/env python3
"""sbom.py: the bill of materials of a release as SPDX 2.3, from what the linker says that it took: each archive and start file belongs
to a Debian package, of one version and one source. The charts' package is compiled in as data.

With --copyrights, FOLDER gets the copyright file of each of these packages: what is linked in is given out under its licence.

Usage: sbom.py [--copyrights FOLDER] VERSION EPOCH LINKED..."""
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys


def linked(paths):
    """Files of the system that the linker read, but for the compiler's own and shared libraries: those are not in the release."""
    names = set()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            names |= {re.sub(r"^\(?([^()]*\.a)\)?.*", r"\1", line.strip()) for line in file}
    return sorted(os.path.realpath(name) for name in names if name.startswith("/") and re.search(r"\.[ao]$", name))


# A folder of tools/cross_libraries.sh, with a package database of its own.
LIBRARIES = os.environ.get("LIBRARIES") and os.path.realpath(os.environ["LIBRARIES"])


def query(cross, *arguments):
    """dpkg-query in the database of this machine, or of the libraries for another one."""
    place = [f"--admindir={LIBRARIES}/var/lib/dpkg"] if cross else []
    return subprocess.run(["dpkg-query", *place, *arguments], capture_output=True, text=True)


def package_of(path):
    """Whether it is of the libraries for another machine, and the package's name."""
    cross = bool(LIBRARIES) and path.startswith(LIBRARIES + "/")
    if cross:
        path = path.removeprefix(LIBRARIES)
    spellings = [path, path.removeprefix("/usr") if path.startswith("/usr/lib") else "/usr" + path]
    for name in spellings:
        asked = query(cross, "-S", name)
        if asked.returncode == 0:
            return cross, asked.stdout.split(": ")[0]
    return None


def described(owner, files):
    cross, package = owner
    text = "${Version}\t${source:Package}\t${source:Version}\t${Homepage}"
    version, source, source_version, home = query(cross, "-W", "-f", text, package).stdout.split("\t")
    name = package.split(":")[0]
    return {"name": name, "SPDXID": "SPDXRef-" + re.sub(r"[^\w.-]", "-", name), "versionInfo": version, "supplier": "Organization: Debian",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION", "homepage": home or "NOASSERTION",
            "sourceInfo": f"source package {source} {source_version}; linked: {', '.join(sorted(os.path.basename(f) for f in files))}",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{source}@{source_version}?arch=source"}]}


def copy_copyrights(owners, folder):
    os.makedirs(folder, exist_ok=True)
    for cross, package in owners:
        name = package.split(":")[0]
        shutil.copyfile(f"{LIBRARIES if cross else ''}/usr/share/doc/{name}/copyright", os.path.join(folder, name))


def main(*arguments):
    folder = arguments[1] if arguments[0] == "--copyrights" else None
    version, epoch, *paths = arguments[2:] if folder else arguments
    files = {}
    for path in linked(paths):
        package = package_of(path)
        if not package:
            sys.exit(f"sbom: {path} is of no package")
        files.setdefault(package, []).append(path)
    if folder:
        copy_copyrights(files, folder)
    packages = [described(package, names) for package, names in sorted(files.items())]
    charts = "build/charts/web/charts/VERSION"
    if os.path.exists(charts):
        with open(charts, encoding="utf-8") as file:
            name, number = file.read().split()[:2]
        packages.append({"name": name, "SPDXID": "SPDXRef-" + name, "versionInfo": number, "downloadLocation": "NOASSERTION",
                         "filesAnalyzed": False, "licenseConcluded": "MIT", "licenseDeclared": "MIT", "copyrightText": "NOASSERTION",
                         "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                           "referenceLocator": f"pkg:npm/{name.lower()}@{number}"}]})
    own = {"name": "lockstep", "SPDXID": "SPDXRef-lockstep", "versionInfo": version, "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]}]
    relations += [{"spdxElementId": own["SPDXID"], "relationshipType": "CONTAINS" if "npm" in str(package["externalRefs"]) else "STATIC_LINK",
                   "relatedSpdxElement": package["SPDXID"]} for package in packages]
    content = json.dumps([own, *packages], sort_keys=True)
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"lockstep-{version}",
                "documentNamespace": f"https://example.org/lockstep/{version}/{hashlib.sha256(content.encode()).hexdigest()}",
                "creationInfo": {"created": datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                                 "creators": ["Tool: lockstep-tools-sbom"]},
                "packages": [own, *packages], "relationships": relations}
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
