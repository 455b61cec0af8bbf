"""Loaded by Python before the program, in runs of `lockstep stalls` only: marks the steps of torch's DataLoader, and gives
its first batches again and again where that is asked.

LOCKSTEP_LOADER_MARK=FILE    opened and closed before each batch is asked for: the recording's step marker
LOCKSTEP_LOADER_REPEAT=K     batches that are repeated; not set: the loader as it is
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

TARGET = "torch.utils.data.dataloader"


def mark(path):
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        pass


def marked(batches, path):
    while True:
        mark(path)
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch


def repeated(loader, batches, count):
    kept = []
    for batch in batches:
        kept.append(batch)
        if len(kept) == count:
            break
    del batches  # its workers end
    try:
        left = len(loader)
    except TypeError:
        left = sys.maxsize
    at = 0
    while kept and at < left:
        yield kept[at % len(kept)]
        at += 1


def change(module):
    loader = module.DataLoader
    original = loader.__iter__
    path = os.environ.get("LOCKSTEP_LOADER_MARK", "")
    count = int(os.environ.get("LOCKSTEP_LOADER_REPEAT", "0") or 0)

    def __iter__(self):
        batches = original(self)
        if count > 0:
            batches = repeated(self, batches, count)
        return marked(iter(batches), path) if path else batches

    loader.__iter__ = __iter__


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())

# The sitecustomize that this one hides.
own = os.path.dirname(os.path.abspath(__file__))
rest = [folder for folder in sys.path if os.path.abspath(folder or ".") != own]
hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
if hidden and hidden.loader:
    hidden.loader.exec_module(importlib.util.module_from_spec(hidden))
