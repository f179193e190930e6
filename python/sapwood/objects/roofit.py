"""Variables, sets of them, plots and fit results of RooFit. Its curves and histograms are graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sapwood.errors import NotFoundError
from sapwood.objects.basic import TNamed
from sapwood.objects.model import Model, behavior


@behavior("RooAbsArg")
class RooAbsArg(TNamed):
    """A node of a RooFit model."""


@behavior("RooAbsReal")
class RooAbsReal(RooAbsArg):
    """A node with a real value."""

    @property
    def value(self) -> float:
        """The value when it was written."""
        return self.member("_value")

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return self.member("_unit")

    def __float__(self) -> float:
        """Return the value."""
        return self.value


@behavior("RooRealVar")
class RooRealVar(RooAbsReal):
    """A variable or parameter."""

    @property
    def error(self) -> float | None:
        """The error; None if there is none (a negative error in ROOT)."""
        found = self.member("_error")
        return found if found >= 0 else None

    @property
    def asymmetric_errors(self) -> tuple[float, float] | None:
        """The errors below (negative) and above; None if there are none."""
        low, high = self.member("_asymErrLo"), self.member("_asymErrHi")
        return (low, high) if low <= 0 <= high else None


@behavior("RooAbsCollection")
class RooAbsCollection(Model, Sequence[Any]):
    """Nodes in order, found by number or name."""

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.member("_name")

    @property
    def names(self) -> list[str]:
        """The names of the nodes."""
        return [node.member("fName") for node in self.member("_list")]

    def __getitem__(self, where: Any) -> Any:
        """Return a node by its number or name, or a list of some."""
        if isinstance(where, str):
            if where not in self.names:
                raise NotFoundError(f"{self!r} has no {where!r}; it has {', '.join(self.names) or 'nothing'}")
            where = self.names.index(where)
        return self.member("_list")[where]

    def __len__(self) -> int:
        """Count the nodes."""
        return len(self.member("_list"))


@behavior("RooFitResult")
class RooFitResult(TNamed):
    """The result of a fit."""

    @property
    def status(self) -> int:
        """The status of the minimiser; 0 for success."""
        return self.member("_status")

    @property
    def covariance_quality(self) -> int:
        """The quality of the covariance matrix; 3 means full and accurate."""
        return self.member("_covQual")

    @property
    def minimum(self) -> float:
        """The minimum of the negative logarithm of the likelihood."""
        return self.member("_minNLL")

    @property
    def parameters(self) -> RooAbsCollection:
        """The floating parameters after the fit."""
        return self.member("_finalPars")

    @property
    def initial_parameters(self) -> RooAbsCollection:
        """The floating parameters before the fit."""
        return self.member("_initPars")

    @property
    def constant_parameters(self) -> RooAbsCollection:
        """The parameters that did not float."""
        return self.member("_constPars")

    @property
    def covariance(self) -> np.ndarray[Any, Any] | None:
        """The covariance matrix in the order of `parameters`; None if it was not stored."""
        found = self.member("_VM")
        return None if found is None else found.to_numpy()

    @property
    def correlation(self) -> np.ndarray[Any, Any] | None:
        """The correlation matrix in the order of `parameters`; None if it was not stored."""
        found = self.member("_CM")
        return None if found is None else found.to_numpy()
