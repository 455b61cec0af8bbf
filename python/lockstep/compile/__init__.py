"""Programs of lockstep's language from PyTorch: a function or a module as it is, and where its inputs lie on a mesh, become a text
that `lockstep compile` checks, runs, tunes and emits.

    import lockstep.compile
    program = lockstep.compile.capture(block, (x, w1, w2), {"tp": 4}, {"x": "S(1,tp)", "w1": "S(1,tp)", "w2": "S(0,tp)"})
    print(program.text)
    program.verify()
    best = program.tune(gpu="h100-sxm")

docs/guide/capture.md shows it whole."""

from .capture import capture, place
from .captured import Captured, Module, Tuned, Verdict
from .exported import capture_exported
from .stablehlo import capture_stablehlo

__all__ = ["Captured", "Module", "Tuned", "Verdict", "capture", "capture_exported", "capture_stablehlo", "place"]
