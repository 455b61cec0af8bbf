#!/usr/bin/env python3
"""Writes a wheel of the folder DIR/lockstep: a zip with metadata and hashes, the same bytes every time.

DIR/licenses, where it exists, holds the licences of what is linked into the library; they are in the wheel.

Usage: wheel.py DIR VERSION OUT_DIR LICENSE README"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

METADATA = """Metadata-Version: 2.1
Name: lockstep
Version: {version}
Summary: Step time and memory of distributed training, predicted without a GPU
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == 'numpy'
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: lockstep\nRoot-Is-Purelib: false\n{tags}"


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def package_files(folder):
    for place, folders, names in os.walk(os.path.join(folder, "lockstep")):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                yield os.path.relpath(path, folder), file.read()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# What PEP 600 lets a wheel take from its machine; other libraries have to be in the wheel.
ALLOWED = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.|ld-linux-")


def platform_tag(libraries):
    """manylinux_X_Y of PEP 600: the newest version of glibc whose symbols the libraries need. The machine's own tag where one
    needs a library that other machines may lack."""
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    newest = (2, 17)
    for path in libraries:
        needs = subprocess.run(["readelf", "--wide", "--dynamic", "--version-info", path], check=True, capture_output=True, text=True,
                               env={**os.environ, "LC_ALL": "C"}).stdout
        others = [name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", needs) if not ALLOWED.match(name)]
        if others:
            print(f"wheel: tagged {machine}: it needs {', '.join(others)} of the machine", file=sys.stderr)
            return machine
        newest = max([newest, *((int(a), int(b)) for a, b in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", needs))])
    machine = machine.removeprefix("linux_")
    older = f".manylinux2014_{machine}" if newest == (2, 17) else ""  # its name for pip before 20.3 (PEP 599)
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}{older}"


def main(folder, version, out, license_file, readme):
    info = f"lockstep-{version}.dist-info"
    files = list(package_files(folder))
    tag = "py3-none-" + platform_tag(os.path.join(folder, name) for name, _ in files if ".so." in name)
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in tag.removeprefix("py3-none-").split("."))
    files.append((f"{info}/METADATA", METADATA.format(version=version, readme=read(readme)).encode()))
    files.append((f"{info}/WHEEL", WHEEL.format(tags=tags).encode()))
    files.append((f"{info}/LICENSE", read(license_file).encode()))
    licenses = os.path.join(folder, "licenses")
    for name in sorted(os.listdir(licenses)) if os.path.isdir(licenses) else []:
        files.append((f"{info}/licenses/{name}", read(os.path.join(licenses, name)).encode()))
    record = "".join(f"{name},{digest(data)},{len(data)}\n" for name, data in files) + f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode()))
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"lockstep-{version}-{tag}.whl")
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if ".so." in name else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    os.replace(path + ".new", path)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
