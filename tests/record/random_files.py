"""Random operations on files, told with their results: the same on the files themselves and in a guarded run.

usage: random_files.py SEED OPERATIONS      in a folder that holds anything
"""
import os
import random
import shutil
import sys

draw = random.Random(int(sys.argv[1]))
NAMES = ["a", "b", "c", "d", "sub/a", "sub/b", "sub/in/a", "new", "new/a", "new/in", "sub/../top/a", "./b", "sub/../c", "sub/", "link",
         "link/a", "hard", "none/a"]


def name():
    return draw.choice(NAMES)


def write(mode):
    def run(path):
        with open(path, mode) as f:
            f.write(str(draw.random()))
            return f.tell()
    return run


def change(path):
    with open(path, "r+") as f:
        f.seek(2)
        f.write("X")
    return os.stat(path).st_size


def read(path):
    with open(path) as f:
        return f.read()


def exclusive(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
    return oct(os.stat(path).st_mode)


def unnamed(path):
    fd = os.open(path, os.O_TMPFILE | os.O_RDWR)
    os.write(fd, b"unnamed")
    os.link("/proc/self/fd/%d" % fd, path + "/linked", follow_symlinks=True)
    os.close(fd)


def look(path):
    info = os.lstat(path)
    return oct(info.st_mode), info.st_size if not os.path.isdir(path) else 0, os.access(path, os.W_OK)


def keep_others_out(path):
    os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)  # a folder that its owner may not enter is another matter


def by_folder(path):
    fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        return sorted(os.listdir(fd)), os.stat(os.path.basename(path) or ".", dir_fd=fd).st_mode
    finally:
        os.close(fd)


def inside(path):
    here = os.getcwd()
    os.chdir(path)
    try:
        with open("within", "a") as f:
            f.write("w")
        return os.path.relpath(os.getcwd(), here), sorted(os.listdir("."))
    finally:
        os.chdir(here)


def where(path):
    return os.path.relpath(os.path.realpath(path), os.path.realpath("."))


ONE = [write("w"), write("a"), write("x"), change, read, exclusive, unnamed, look, by_folder, inside, where, os.unlink, os.rmdir, os.mkdir,
       os.makedirs, lambda p: sorted(os.listdir(p)), shutil.rmtree, lambda p: os.truncate(p, 1), keep_others_out,
       lambda p: os.readlink(p), os.remove, lambda p: os.utime(p, (1, 2)) or os.stat(p).st_mtime, lambda p: os.mkfifo(p),
       lambda p: sorted(e.name + str(e.is_dir()) + str(e.is_symlink()) for e in os.scandir(p))]
TWO = [os.rename, os.replace, os.link, os.symlink, shutil.copy2, shutil.copytree, shutil.move]


def tree():
    for folder, folders, files in os.walk("."):
        folders.sort()
        for one in sorted(files):
            path = os.path.join(folder, one)
            info = os.lstat(path)
            text = os.readlink(path) if os.path.islink(path) else read(path) if os.path.isfile(path) else ""
            yield path, oct(info.st_mode), info.st_nlink, text
        yield folder, oct(os.lstat(folder).st_mode)


def result_of(operation, *paths):
    try:
        return operation(*paths)
    except FileNotFoundError as error:
        return "none", error.errno
    except OSError as error:
        return error.errno
    except shutil.Error as error:
        return "several", len(error.args[0])


for number in range(int(sys.argv[2])):
    if draw.random() < 0.7:
        at, paths = draw.randrange(len(ONE)), [name()]
        operation = ONE[at]
    else:
        at, paths = draw.randrange(len(TWO)), [name(), name()]
        operation = TWO[at]
    if operation in (change, read, shutil.copy2, shutil.move, shutil.copytree) or "open" in str(operation):
        if any(os.path.exists(p) and not os.path.isfile(p) and not os.path.isdir(p) for p in paths):
            continue  # to open a pipe would wait
    if any(os.path.lexists(p) and not os.path.isfile(p) and not os.path.isdir(p) and not os.path.islink(p) for p in paths):
        continue
    if operation in (shutil.copytree, shutil.move):
        source, target = (os.path.realpath(p) for p in paths)
        if target.startswith(source):
            continue  # into itself: until names are too long
    print(number, len(paths), at, paths, result_of(operation, *paths))
for line in tree():
    print(*line)
