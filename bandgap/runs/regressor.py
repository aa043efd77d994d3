"""A regressor of scikit-learn's kind that learns gaps from structures and predicts intervals.

Reference for the conventions: scikit-learn's developer guide, "Developing scikit-learn estimators".
"""

import contextlib
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import sklearn.exceptions
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bandgap.datasets.gaps import baselines_from_info, gaps_from_numbers
from bandgap.datasets.own_features import OwnFeatures, own_features, run_features
from bandgap.datasets.table import LabelledSet
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.arguments import as_folder, as_numbers
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.predictions.interval_kinds import IntervalKind, check_kind, check_level
from bandgap.predictions.table import Predictions
from bandgap.runs.prediction import load_for, predict_records
from bandgap.runs.requests import WIDEN_FACTOR, PredictRequest, TransferRequest
from bandgap.runs.transfer import Prepared, fit, prepare, report, split_rows
from bandgap.runs.unseen_elements import UnseenElementWarning, with_unseen_elements
from bandgap.storage.result_folders import check_result_folder, replaced_result
from bandgap.structures import StructureRecord
from bandgap.structures.ids import stated_id, with_unique_ids
from bandgap.structures.objects import items_of, records_of_item

Floats = NDArray[np.float64]

# Parameters that are fields of a TransferRequest with the same name.
_REQUEST_FIELDS = (
    "method",
    "levels",
    "baseline",
    "preset",
    "species",
    "head",
    "conformal_share",
    "seed",
    "device",
    "n_jobs",
)


class NotFittedError(BandgapError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """A prediction of a regressor that has not learned yet."""


class InvalidDataError(InputError, ValueError):
    """Structures or gaps that cannot be used; a ValueError too, as scikit-learn's errors are."""


@contextlib.contextmanager
def _as_invalid_data() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InvalidDataError(str(error)) from error


class BandGapRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predict band gaps of structures, with intervals, in scikit-learn's conventions.

    X is a list of n structures, or a DataFrame with one column of them: `ase.Atoms`, pymatgen
    `Structure` or `Molecule`, paths of files with one structure, or records, in any mixture. y are
    their gaps (n,) in eV. Every structure must be usable; to leave out the others, use
    `transfer_run` and `predict_run`. A structure with an element that the structures learned from
    lack, as in a fold of a cross-validation, is predicted as by `predict_run`: by its features if
    `species` or the source has the element, or in part, with a wider interval. Where `predict_run`
    refuses it, the prediction is the mean of the gaps learned from with their standard deviation,
    and there is an `UnseenElementWarning`.

    Parameters
    ----------
    method
        Name of the method. Default: the proposed one for these structures.
    source
        Folder of a source model, or "demo" or "inorganic" for a shipped one. None: learn without
        transfer.
    level_of_theory
        Method of the gaps, such as "PBE".
    levels, preset, species, head, conformal_share, seed, device
        As in `TransferRequest`. `preset` and `species` name a descriptor where there is no source.
    settings
        Settings of the method by name.
    baseline
        Name of an entry of `info` with a cheaper gap that every structure has, such as
        "gap_pbe_eV". The difference to it is learned.
    features
        Your own numbers for each structure, to learn from beside the descriptor (alone with
        `preset="none"`): a DataFrame indexed by id, a mapping of id to vector, or the path of a
        table. It must have the structures of `fit` and of `predict`, by their ids (`info["id"]`).
    cache
        Folder of a descriptor cache, or a `DescriptorCache`. Cross-validation then computes every
        descriptor once.
    n_jobs
        Processes that compute descriptors at the same time.

    Attributes
    ----------
    run_
        The fitted `Run`: posterior, descriptor, applicability domain and manifest.
    calibrator_
        Calibrator of a loaded run, or None.
    n_structures_in_
        Number of structures given to `fit`.

    Examples
    --------
    >>> import bandgap
    >>> crystals = bandgap.load_demo("crystals")
    >>> regressor = bandgap.BandGapRegressor("last_layer_ridge", source="demo")
    >>> regressor.fit(crystals.records[:60], crystals.gaps_eV[:60])  # doctest: +SKIP
    >>> mean, sd = regressor.predict(crystals.records[60:80], return_std=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        method: str | None = None,
        source: Path | str | None = None,
        *,
        level_of_theory: str = "",
        levels: str | None = None,
        preset: str | None = None,
        species: tuple[str, ...] | None = None,
        head: str | None = None,
        settings: Mapping[str, Any] | None = None,
        baseline: str = "",
        features: object = None,
        conformal_share: float = 0.0,
        seed: int = 0,
        device: str = "auto",
        cache: DescriptorCache | Path | str | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.method = method
        self.source = source
        self.level_of_theory = level_of_theory
        self.levels = levels
        self.preset = preset
        self.species = species
        self.head = head
        self.settings = settings
        self.baseline = baseline
        self.features = features
        self.conformal_share = conformal_share
        self.seed = seed
        self.device = device
        self.cache = cache
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: X is a list of structures, not an array."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    @_as_invalid_data()
    def fit(self, X: object, y: ArrayLike) -> Self:
        """Learn from labelled structures.

        Parameters
        ----------
        X
            Structures, n of them.
        y
            Gaps, (n,), in eV.

        Returns
        -------
        BandGapRegressor
            The fitted regressor itself.

        Raises
        ------
        InvalidDataError
            For a structure that cannot be used, with its number and the reason, and for values that
            are not gaps. It is an InputError and a ValueError.
        ConfigError
            For a parameter that is not accepted.
        ArtifactError
            For a source that is missing or damaged.
        """
        request = self._request()
        records = _usable_records(X, self._own_features())
        gaps_eV = _gaps(y, records)
        data = LabelledSet(
            records, gaps_eV, self.level_of_theory, baseline_eV=self._baselines(records)
        )
        cache = self._cache()
        started = time.perf_counter()
        prepared = prepare(self.source, data, request)
        tables = split_rows(prepared, cache=cache)
        _refuse_left_out(prepared, records)
        with tempfile.TemporaryDirectory(prefix="bandgap-") as parent:
            folder = Path(parent, "run")
            fitted = fit(prepared, tables, checkpoints=Path(parent, "checkpoint"))
            report(prepared, tables, fitted, folder=folder, started=started)
            self._read(folder)
        self.n_structures_in_ = len(records)
        return self

    def predict(self, X: object, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Predict gaps.

        Parameters
        ----------
        X
            Structures, n of them.
        return_std
            Whether to return standard deviations too.

        Returns
        -------
        mean_eV, sd_eV
            Predicted means, (n,), in eV. With `return_std` also the standard deviations of a new
            observation, (n,), in eV: those of the mean and of the noise together.

        Raises
        ------
        InvalidDataError
            For a structure that cannot be predicted, with its number and the reason.
        NotFittedError
            Before `fit`.
        """
        predictions = self.predict_table(X)
        if return_std:
            return predictions.mean_eV, predictions.sd_new_eV
        return predictions.mean_eV

    @_as_invalid_data()
    def predict_interval(
        self,
        X: object,
        level: float = 0.95,
        kind: IntervalKind = "prediction",
        *,
        withhold_below_p: float = 0.0,
        widen_below_p: float = 0.0,
        widen_factor: float = WIDEN_FACTOR,
    ) -> tuple[Floats, Floats]:
        """Predict intervals.

        Parameters
        ----------
        X
            Structures, n of them.
        level
            Probability that the interval states, from 0.01 to 0.99.
        kind
            "prediction" for a new gap, "credible" for the mean, or "conformal" for a new gap by
            structures that were held back (`conformal_share`).
        withhold_below_p, widen_below_p
            P-values of the domain below which intervals are withheld (NaN) and widened, 0 for
            never.
        widen_factor
            Factor of the standard deviation of widened intervals, above 1.

        Returns
        -------
        lower_eV, upper_eV
            Ends of the central intervals, (n,) each, in eV.

        Raises
        ------
        ConfigError
            For another level or kind, and for conformal intervals without held-back structures.
        InvalidDataError
            As `predict`, and where too few structures were held back for the level.
        """
        self._check_fitted()
        check_level(level)
        check_kind(kind)
        predictions = self.predict_table(
            X,
            withhold_below_p=withhold_below_p,
            widen_below_p=widen_below_p,
            widen_factor=widen_factor,
        )
        return predictions.interval(level, kind)

    @_as_invalid_data()
    def predict_table(
        self,
        X: object,
        *,
        withhold_below_p: float = 0.0,
        widen_below_p: float = 0.0,
        widen_factor: float = WIDEN_FACTOR,
    ) -> Predictions:
        """Return predictions with the warning of the applicability domain for each structure.

        Parameters and errors are those of `predict` and `predict_interval`.
        """
        self._check_fitted()
        changes = PredictRequest(
            withhold_below_p=withhold_below_p,
            widen_below_p=widen_below_p,
            widen_factor=widen_factor,
        ).interval_changes
        table = run_features(self.features, self.run_.descriptor.user_features)
        records = _usable_records(X, table)
        predictions, _ = predict_records(
            self.run_,
            records,
            baseline_eV=self._baselines(records, self.run_.baseline),
            cache=self._cache(),
            n_jobs=self.n_jobs,
        )
        predictions, warning = with_unseen_elements(predictions, self.run_, records)
        if warning:
            warnings.warn(warning, UnseenElementWarning, stacklevel=2)
        for number, (status, problem) in enumerate(
            zip(predictions.status, predictions.problem, strict=True), start=1
        ):
            if status == "refused":
                raise _refusal(number, records[number - 1], problem)
        if self.calibrator_ is not None:
            predictions = self.calibrator_.apply(predictions)
        return changes.apply(predictions)

    @_as_invalid_data()
    def domain_p(self, X: object) -> Floats:
        """Return the p-values (n,) of the applicability domain of structures.

        They are NaN for a structure with an element that is neither in the source nor in the
        structures that were learned from. Errors are those of `predict`.
        """
        p = self.predict_table(X).domain_p
        assert p is not None
        return p

    @_as_invalid_data()
    def score(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination R^2 of the predicted means.

        Parameters
        ----------
        X
            Structures, n of them.
        y
            Gaps, (n,), in eV.
        sample_weight
            Weights of the structures, (n,).

        Raises
        ------
        InvalidDataError
            As `fit` and `predict`.
        """
        self._check_fitted()
        records = _usable_records(X)
        return float(super().score(records, _gaps(y, records), sample_weight))

    def save(self, folder: Path | str) -> Path:
        """Write the run to a folder, which `predict_run` and `bandgap predict --model` take.

        An older run in the folder is replaced. Raises InputError if the folder contains other
        files or cannot be written, and NotFittedError before `fit`.
        """
        self._check_fitted()
        path = as_folder(folder, name="folder")
        check_result_folder(path, kind="run")
        with replaced_result(path, kind="run") as new_folder:
            self._write(new_folder)
        return path

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Return the fitted regressor of a run that `save` or `transfer_run` wrote.

        A run does not store where its source is: set `source` before another `fit`. Raises
        ArtifactError if the run is missing or damaged.
        """
        path = as_folder(folder, name="folder")
        run, _ = load_for(path, PredictRequest())
        stored = run.manifest["request"]
        parameters = {name: stored[name] for name in _REQUEST_FIELDS if name in stored}
        if parameters.get("species") is not None:
            parameters["species"] = tuple(parameters["species"])
        regressor = cls(
            level_of_theory=run.manifest.get("level_of_theory", ""),
            settings=stored["settings"] or None,
            **parameters,
        )
        regressor._read(path)
        regressor.n_structures_in_ = int(run.manifest["data"]["n_given"])
        return regressor

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters and the files of the run, without what is loaded from these."""
        state = super().__getstate__()
        return {name: state[name] for name in state if name not in ("run_", "calibrator_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the regressor; its run is loaded with the checks of one in a folder."""
        super().__setstate__(state)
        if "_files" in state:
            with tempfile.TemporaryDirectory(prefix="bandgap-") as folder:
                self._write(Path(folder))
                self._read(Path(folder))

    def _write(self, folder: Path) -> None:
        for name, content in self._files.items():
            Path(folder, Path(name).name).write_bytes(content)  # no path of a stranger's dump

    def _read(self, folder: Path) -> None:
        """Load the run in a folder and keep the bytes of its files for `save`."""
        self.run_, self.calibrator_ = load_for(folder, PredictRequest())
        self._files = {
            path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()
        }

    def _check_fitted(self) -> None:
        try:
            check_is_fitted(self, "run_")
        except sklearn.exceptions.NotFittedError:
            raise NotFittedError(
                "This BandGapRegressor is not fitted yet. Call fit(X, y) first, or load a run by"
                " BandGapRegressor.load(folder)."
            ) from None

    def _request(self) -> TransferRequest:
        """Return the request that the parameters mean; all structures are learned from."""
        fields = {name: getattr(self, name) for name in _REQUEST_FIELDS}
        settings = {} if self.settings is None else self.settings
        return TransferRequest(n_test=0, checkpoint_every=0, settings=settings, **fields)

    def _own_features(self) -> OwnFeatures | None:
        return None if self.features is None else own_features(self.features)

    def _cache(self) -> DescriptorCache | None:
        if self.cache is None or isinstance(self.cache, DescriptorCache):
            return self.cache
        return DescriptorCache(as_folder(self.cache, name="cache"))

    def _baselines(self, records: list[StructureRecord], name: str | None = None) -> Floats | None:
        """Return the baselines (n,) in eV of the structures, None for a run without one."""
        key = self.baseline if name is None else name
        return baselines_from_info(records, key) if key else None


def _usable_records(
    structures: object, features: OwnFeatures | None = None
) -> list[StructureRecord]:
    """Return one record for each item of X, with its own features if a table is given.

    Raises InputError for one that cannot be used.
    """
    records = []
    for number, item in enumerate(items_of(structures), start=1):
        item_records = records_of_item(item, number=number)
        if len(item_records) != 1:
            raise InputError(
                f"structure {number}: {item} contains {len(item_records)} structures; here every"
                " item is one. Read them by bandgap.read_paths and give the records."
            )
        (record,) = item_records
        if record.status == "refused":
            raise _refusal(number, record, record.problem)
        if features is not None and not (record.file or stated_id(record.info)):
            raise InputError(
                f'structure {number} states no id: name it, atoms.info["id"] = "...", as in '
                f"{features.table.file}."
            )
        records.append(record)
    if not records:
        raise InputError("X contains no structures. Give at least one.")
    if features is not None:
        records = features.matched(records)
    return with_unique_ids(records)


def _refusal(number: int, record: StructureRecord, problem: str) -> InputError:
    return InputError(
        f"structure {number} ({record.id}) cannot be used: {problem.rstrip('.')}. Leave it out or"
        " correct it."
    )


def _refuse_left_out(prepared: Prepared, records: list[StructureRecord]) -> None:
    """Raise InputError if structures have no descriptor, such as for elements of no source."""
    left_out = prepared.facts["left_out"]
    if not left_out:
        return
    first = left_out[0]
    reason = first["problem"] or f"the descriptor has no {', '.join(first['elements'])}"
    number = [record.id for record in records].index(first["id"]) + 1
    more = f" {len(left_out)} structures cannot be used in all." if len(left_out) > 1 else ""
    error = _refusal(number, records[number - 1], reason)
    raise InputError(f"{error}{more}")


def _gaps(y: object, records: list[StructureRecord]) -> Floats:
    """Return the gaps (n,) in eV. Raises InputError unless every structure has a gap."""
    if y is None:
        raise InputError(
            "BandGapRegressor requires y to be passed, but the target y is None. Give one gap in eV"
            " for each structure."
        )
    column = np.asarray(y) if hasattr(y, "shape") else y
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of"
            " y to (n_structures,), for example using ravel().",
            sklearn.exceptions.DataConversionWarning,
            stacklevel=4,
        )
        column = column[:, 0]
    gaps_eV = as_numbers(column, name="y")
    if len(gaps_eV) != len(records):
        raise InputError(
            f"{len(records)} structures but {len(gaps_eV)} gaps: one gap for each is expected."
        )
    without_gap = np.flatnonzero(np.isnan(gaps_eV))
    if without_gap.size:
        first = int(without_gap[0])
        raise InputError(
            f"y: the gap of structure {first + 1} ({records[first].id}) is NaN. Leave structures"
            " without a gap out."
        )
    return gaps_from_numbers([record.id for record in records], gaps_eV, unit="eV", name="y")
