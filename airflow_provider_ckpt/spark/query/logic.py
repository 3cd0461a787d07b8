"""Functions of other versions of the job, which operators of the running one were given."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark import cloudpickle

from airflow_provider_ckpt.job.loading import LoadedJob, load
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.storage.location import Location


class LogicLoader:
    """One for a run: every query, and every attempt of it, has the functions of one reading of the file.

    ``params``: of the run, which those versions read as well; ``location``: of the root, for functions that look at
    other jobs."""

    def __init__(self, params: Mapping[str, str], location: Location) -> None:
        self._params, self._location = params, location
        self._loaded: dict[str, Mapping[str, Operator]] = {}

    def __call__(self, reference: str) -> Mapping[str, Operator]:
        """Raises what loading a job's file raises."""
        if reference not in self._loaded:
            loaded = load(reference, self._params)
            ship_functions(loaded)
            loaded.job.runs_under(self._location)
            self._loaded[reference] = loaded.job.operators
        return self._loaded[reference]


def ship_functions(loaded: LoadedJob) -> None:
    """What the executors cannot import as it was loaded here, its functions are sent by value."""
    if loaded.by_value:
        cloudpickle.register_pickle_by_value(loaded.module)  # type: ignore[no-untyped-call]
