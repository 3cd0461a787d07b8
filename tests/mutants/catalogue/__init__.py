"""The list of mutants, by layer.

A change of a line that is named here must change the entry, too. A test of the fast suite checks this. If no test can
notice a mutant, because its line prevents no harm, delete the line from the code instead of listing it.
"""

from __future__ import annotations

from tests.mutants.catalogue.consumers import CONSUMERS
from tests.mutants.catalogue.controllers import CONTROLLERS
from tests.mutants.catalogue.coordinator import COORDINATOR
from tests.mutants.catalogue.databases import DATABASES
from tests.mutants.catalogue.deletion import DELETION
from tests.mutants.catalogue.garbage import GARBAGE
from tests.mutants.catalogue.gates import GATES
from tests.mutants.catalogue.journal import JOURNAL
from tests.mutants.catalogue.kafka_sink import KAFKA_SINK
from tests.mutants.catalogue.kept import KEPT
from tests.mutants.catalogue.lakes import LAKES
from tests.mutants.catalogue.launching import LAUNCHING
from tests.mutants.catalogue.partitions import PARTITIONS
from tests.mutants.catalogue.reconfiguring import RECONFIGURING
from tests.mutants.catalogue.recovery import RECOVERY
from tests.mutants.catalogue.remote import REMOTE
from tests.mutants.catalogue.rescaling import RESCALING
from tests.mutants.catalogue.sinks import SINKS
from tests.mutants.catalogue.spark_files import SPARK_FILES
from tests.mutants.catalogue.spark_run import SPARK_RUN
from tests.mutants.catalogue.storage import STORAGE
from tests.mutants.catalogue.upgrades import UPGRADES

MUTANTS = (
    *STORAGE,
    *PARTITIONS,
    *JOURNAL,
    *DELETION,
    *GARBAGE,
    *COORDINATOR,
    *GATES,
    *RESCALING,
    *RECONFIGURING,
    *UPGRADES,
    *CONTROLLERS,
    *CONSUMERS,
    *REMOTE,
    *KEPT,
    *RECOVERY,
    *SINKS,
    *DATABASES,
    *LAKES,
    *KAFKA_SINK,
    *SPARK_FILES,
    *SPARK_RUN,
    *LAUNCHING,
)
