"""Languages of expressions under uproot's names: ``language.python.PythonLanguage(functions)``.

`sapwood.table.expressions` describes the language. There is no other one.
"""

from __future__ import annotations

import sys
from types import ModuleType

from sapwood.table.expressions import FUNCTIONS, Language

__all__ = ["python"]
__path__: list[str] = []
"""Empty: the module is made here."""

python = ModuleType(f"{__name__}.python", "The language of expressions, with uproot's names.")
vars(python).update(PythonLanguage=Language, python_language=Language(), default_functions=FUNCTIONS)
sys.modules[python.__name__] = python
